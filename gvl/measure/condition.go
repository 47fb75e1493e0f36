package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
)

// figureUnit is the unit in which texts show a figure, and in which users write its limit.
type figureUnit uint8

const (
	figureTime   figureUnit = iota // in ns, written 200ms or 1.5s
	figureShare                    // 0 to 1, written 90% or 0.9
	figureCPU                      // in CPUs, written 150% or 1.5
	figureNumber                   // written 3 or 1.5
	figureBytes                    // in bytes, written 2GB or 500MB
)

// figure is a measured quantity that users can compare with a limit.
type figure struct {
	name, about string
	unit        figureUnit
	// The function of returns the figure's value in a period. ok is false if the value is not known. limit is the limit
	// of the condition. Some figures need it: for example, a wait in progress counts only if it is longer.
	of func(w *figures, limit float64) (value float64, ok bool)
	// The function told formats the value for a text. If told is nil, the value is formatted by its unit.
	told func(w *figures, limit float64) string
}

var allFigures = [...]figure{
	{"wait_p50", "half of the waits for the GVL were this long at most", figureTime, waitFigure(.5), waitTold(.5)},
	{"wait_p95", "95 % of them", figureTime, waitFigure(.95), waitTold(.95)},
	{"wait_p99", "99 % of them", figureTime, waitFigure(.99), waitTold(.99)},
	{"wait_max", "the longest of them", figureTime, waitFigure(1), waitTold(1)},
	{"held_share", "the part of the time in which the GVL was held; of several ractors that of the busiest", figureShare,
		func(w *figures, _ float64) (float64, bool) { return w.held(), w.shares() }, nil},
	{"gc_share", "the part of the time in which garbage was collected", figureShare,
		func(w *figures, _ float64) (float64, bool) { return min(gvl.Ratio(w.gcNS, w.ns), 1), w.shares() }, nil},
	{"waiting", "how many threads waited for the GVL, in the mean", figureNumber, stateFigure(gvl.Waiting), nil},
	{"native", "how many worked without the GVL", figureNumber, stateFigure(gvl.Native), nil},
	{"io", "how many waited for something outside", figureNumber, stateFigure(gvl.IO), nil},
	{"lock", "how many waited for a Mutex or Monitor", figureNumber, stateFigure(gvl.Lock), nil},
	{"stalled", "how many held the GVL and were asleep in the kernel", figureNumber, stateFigure(gvl.Stalled), nil},
	{"threads", "how many threads there were at the end", figureNumber,
		func(w *figures, _ float64) (float64, bool) { return float64(w.threads), true }, nil},
	{"request_p50", "half of the requests and jobs took this long at most", figureTime, requestFigure(.5), nil},
	{"request_p95", "95 % of them", figureTime, requestFigure(.95), nil},
	{"request_p99", "99 % of them", figureTime, requestFigure(.99), nil},
	{"request_max", "the longest of them", figureTime, requestFigure(1), nil},
	{"cpu", "the CPU time of the process by elapsed time, 150% is one and a half CPUs", figureCPU,
		func(w *figures, _ float64) (float64, bool) { return w.cpu, w.cpuKnown }, nil},
	{"alloc", "objects made a second", figureNumber,
		func(w *figures, _ float64) (float64, bool) {
			return gvl.Ratio(int64(w.allocated), w.ns) * 1e9, w.allocatedKnown
		}, nil},
	{"rss", "the memory of the process at the end", figureBytes,
		func(w *figures, _ float64) (float64, bool) { return float64(w.rss), w.rss > 0 }, nil},
	{"backlog", "how many connections and requests waited for a thread of the process at the end", figureNumber,
		func(w *figures, _ float64) (float64, bool) {
			if w.backlog == nil {
				return 0, false
			}
			return float64(*w.backlog), true
		}, nil},
}

// Figure describes a figure that a Condition can compare.
type Figure struct {
	Name  string
	About string
	// Like is an example of a limit for this figure, such as "200ms".
	Like string
}

// Figures returns all figures.
func Figures() []Figure {
	out := make([]Figure, 0, len(allFigures))
	for _, f := range allFigures {
		out = append(out, Figure{f.name, f.about, f.unit.like()})
	}
	return out
}

var comparisons = []string{">=", "<=", ">", "<"}

// anyFinding is the word for a condition that is true if there is a finding with at least the severity of a warning.
const anyFinding = "any"

// Condition is what a Watch waits for: a finding, or a figure above or below a limit.
type Condition struct {
	text    string
	finding string // the rule's ID, or "" without a finding
	any     bool
	figure  *figure
	above   bool // set if the figure must be above the limit; otherwise it must be below
	equal   bool // set if a figure equal to the limit is enough
	limit   float64
}

// String returns the condition as it was written, without blanks.
func (c Condition) String() string { return c.text }

// Name returns the name of the finding or the figure.
func (c Condition) Name() string {
	switch {
	case c.figure != nil:
		return c.figure.name
	case c.any:
		return "finding"
	}
	return c.finding
}

// ParseCondition parses a finding's name (gvl_hog), "any" for any finding that is at least a warning, or a figure with
// a limit (wait_p99>200ms, held_share>=90%).
func ParseCondition(text string) (Condition, error) {
	word := strings.ReplaceAll(text, " ", "")
	c := Condition{text: word}
	at := strings.IndexAny(word, "<>=")
	if at < 0 {
		if word == anyFinding {
			c.any = true
			return c, nil
		}
		if !slices.Contains(findings.RuleIDs(), word) {
			return Condition{}, noCondition(word)
		}
		c.finding = word
		return c, nil
	}
	name := word[:at]
	i := slices.IndexFunc(allFigures[:], func(f figure) bool { return f.name == name })
	if i < 0 {
		if slices.Contains(findings.RuleIDs(), name) {
			return Condition{}, fmt.Errorf("%s is a finding, and has no figure to compare: write %s alone", name, name)
		}
		return Condition{}, noCondition(name)
	}
	c.figure = &allFigures[i]
	for _, sign := range comparisons {
		if rest, ok := strings.CutPrefix(word[at:], sign); ok {
			c.above, c.equal = sign[0] == '>', len(sign) == 2
			limit, err := c.figure.unit.parse(rest)
			if err != nil {
				return Condition{}, fmt.Errorf("%s: %w", name, err)
			}
			c.limit = limit
			return c, nil
		}
	}
	return Condition{}, fmt.Errorf("%q compares with none of %s", text, strings.Join(comparisons, " "))
}

// noCondition returns an error for a word that is no condition. It lists all conditions, and suggests the one that was
// probably meant.
func noCondition(word string) error {
	ids := findings.RuleIDs()
	var names []string
	for _, f := range allFigures {
		names = append(names, f.name)
	}
	for _, f := range allFigures {
		if f.name == word {
			return fmt.Errorf("%s is a figure: say how much of it, as in %s>%s", word, word, f.unit.like())
		}
	}
	meant := "."
	if near := nearest(word, append(slices.Clone(ids), names...)); near != "" {
		meant = fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Errorf("there is no finding or figure %q%s The findings are %s, %s (any that is at least a warning); the figures, to be compared "+
		"(wait_p99>200ms), %s", word, meant, strings.Join(ids, ", "), anyFinding, strings.Join(names, ", "))
}

// nearest returns the word of a list that is most similar to the given word. It returns "" if even in this word more
// than a third of the letters differ.
func nearest(word string, list []string) string {
	best, least := "", len(word)/3+1
	for _, w := range list {
		if d := units.Distance(word, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// like returns an example of a limit.
func (u figureUnit) like() string {
	return [...]string{figureTime: "200ms", figureShare: "90%", figureCPU: "150%", figureNumber: "3", figureBytes: "2GB"}[u]
}

// maxFigure is the largest limit in numbers or bytes. maxCPUs is the largest limit in CPUs.
const (
	maxFigure = 1e15
	maxCPUs   = 1e4
)

func (u figureUnit) parse(text string) (float64, error) {
	list, most := units.Numbers, maxFigure
	switch u {
	case figureTime:
		list, most = units.Times, findings.MaxLimitTime
	case figureShare:
		list, most = units.Shares, 1
	case figureCPU:
		list, most = units.Shares, maxCPUs
	case figureBytes:
		list = units.Sizes
	}
	v, ok := units.Parse(text, list)
	switch {
	case ok && v <= most:
		return v, nil
	case ok && u == figureShare:
		return 0, fmt.Errorf("%q is more than all of it, which is 100%% or 1", text)
	}
	return 0, fmt.Errorf("%q is not a value such as %s", text, u.like())
}

// text formats a value for people.
func (u figureUnit) text(v float64) string {
	switch u {
	case figureTime:
		return units.ProseDuration(int64(v))
	case figureShare, figureCPU:
		return units.RoundPercent(v)
	case figureBytes:
		return units.Bytes(int64(v))
	}
	return units.Number(v, 1)
}

// easier keeps a condition from flickering. Once a condition is true, its limit is less strict: a limit for > is
// multiplied by easier, and a limit for < is divided by it. So the condition stays true until the figure is well on the
// other side.
const easier = findings.ClearShare

// holds reports whether v is beyond the limit. The parameter was is true if the condition was true at the last check.
// In this case the limit is less strict (see easier), so that the condition does not flicker.
func (c *Condition) holds(v float64, was bool) bool {
	limit := c.limit
	if was && c.above {
		limit *= easier
	} else if was {
		limit /= easier
	}
	switch {
	case v == limit:
		return c.equal || was
	case c.above:
		return v > limit
	}
	return v < limit
}
