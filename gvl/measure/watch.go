package measure

import (
	"fmt"
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// checkNS is the interval between two checks of a Watch, in ns. The Watch checks whenever the figures of one more
	// second (watchLine) are complete.
	checkNS = 1_000_000_000
	// MinOverNS and MaxOverNS are the bounds of the period over which figures are computed, in ns.
	MinOverNS, MaxOverNS = checkNS, 300 * checkNS
	// maxLookbackNS limits how far back ddtop searches for the cause of a condition, in ns before the condition became
	// true.
	maxLookbackNS = 600 * checkNS
	// knownShare is the least part of the period that must have been sampled. With less, there are no figures.
	knownShare = .5
)

// Cause is a condition that is true, with a text that says why.
type Cause struct {
	Condition Condition
	// Text has the figure's value, or the finding's title and text.
	Text string
	// FromNS is the earliest time at which the condition can have become true, CLOCK_MONOTONIC in ns. It is the
	// beginning of a period over which figures were computed, so the real time can be later.
	FromNS int64
}

// Verdict is the result of a check.
type Verdict struct {
	// AtNS is the time of the newest sample, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Causes has the conditions that are true. A condition does not end as soon as its figure crosses the limit again:
	// it stays true until the figure is well on the other side (see easier).
	Causes []Cause
	// Findings has all findings, including those that no condition names.
	Findings []findings.Finding
}

// Watch checks once a second which conditions are true for a stream of samples. It is not safe for concurrent use.
type Watch struct {
	*Measure
	rules      *findings.Rules
	conditions []Condition
	held       []bool // for each condition, whether it held in the last check
	// clearNS has, for each condition about a figure, the beginning of the last period in which the condition was
	// false. The condition may have become true within this period. It is zero if the condition was never false.
	clearNS []int64
	overNS  int64
	lines   *account.Lines
	kept    []watchLine // the lines of the last overNS
	due     bool
}

// watchLine has the figures of one second, as `ddtop stat` prints them in a line.
type watchLine struct {
	line report.StatLine
	sums *account.LineSums
}

// NewWatch returns a Watch for the target p. The IDs in the samples that it will get point into dict. overNS is the
// length of the period over which figures are computed, in whole seconds. If r is nil, the rules have their default
// thresholds.
func NewWatch(p sampler.Process, dict *sampler.Dictionary, r *findings.Rules, overNS int64, conditions []Condition) *Watch {
	if r == nil {
		r = findings.NewRules()
	}
	w := &Watch{Measure: New(p, dict, r), rules: r, conditions: conditions, held: make([]bool, len(conditions)), clearNS: make([]int64, len(conditions)),
		overNS: min(max(overNS, MinOverNS), MaxOverNS) / checkNS * checkNS}
	w.lines = account.NewLinesWithSums(w.stream, p, checkNS, w.line)
	return w
}

// LookbackNS returns the longest time, in ns, from the beginning of a cause until ddtop reports the condition. A caller
// that records causes must keep the samples of the last LookbackNS.
func LookbackNS(r *findings.Rules, overNS int64, conditions []Condition) int64 {
	if r == nil {
		r = findings.NewRules()
	}
	back := int64(0)
	for i := range conditions {
		c := &conditions[i]
		switch {
		case c.figure != nil:
			back = max(back, 2*overNS+account.MaxLineLagNS+c.agoNS())
		default:
			for _, id := range findings.RuleIDs() {
				if c.any || id == c.finding {
					back = max(back, min(r.CauseAgoNS(id), maxLookbackNS)+r.RaiseNS(id))
				}
			}
		}
	}
	return min(back+2*checkNS, maxLookbackNS)
}

// agoNS returns by how much a cause can begin before the period of its figure, in ns. For example, a wait that ended in
// the period may have begun before it.
func (c *Condition) agoNS() int64 {
	if c.figure.unit != figureTime {
		return 0
	}
	return min(int64(c.limit), maxLookbackNS)
}

func (w *Watch) line(l report.StatLine, sums *account.LineSums) {
	w.kept = append(w.kept, watchLine{l, sums})
	n := 0
	for n < len(w.kept) && w.kept[n].line.EndNS <= l.EndNS-w.overNS {
		n++
	}
	w.kept = slices.Delete(w.kept, 0, n)
	w.due = true
}

// Feed adds one sample. If this completes a second, ok is true and v has the conditions that are true.
func (w *Watch) Feed(s *sampler.Sample) (v Verdict, ok bool) {
	w.Measure.Feed(s)
	if !w.due {
		return Verdict{}, false
	}
	w.due = false
	return w.judge(s.TimeNS), true
}

func (w *Watch) judge(nowNS int64) Verdict {
	v := Verdict{AtNS: nowNS, Findings: w.findings.Current()}
	f := w.figures()
	for i := range w.conditions {
		c := &w.conditions[i]
		if c.figure != nil {
			if f == nil {
				if w.held[i] { // too little was sampled to decide, so the last result stays
					v.Causes = append(v.Causes, Cause{*c, c.text + ", as far as was seen last", nowNS - w.overNS})
				}
				continue
			}
			limit := c.limit
			if w.held[i] && c.above {
				limit *= easier
			}
			f.below = !c.above
			value, known := c.figure.of(f, limit)
			if w.held[i] = known && c.holds(value, w.held[i]); !w.held[i] {
				w.clearNS[i] = f.fromNS
				continue
			}
			from := f.fromNS
			if w.clearNS[i] != 0 {
				from = max(min(from, w.clearNS[i]), nowNS-maxLookbackNS)
			}
			told := c.figure.unit.text(value)
			if c.figure.told != nil {
				told = c.figure.told(f, limit)
			}
			text := fmt.Sprintf("%s: %s over %s", c.text, told, figureTime.text(float64(w.overNS)))
			v.Causes = append(v.Causes, Cause{*c, text, from - c.agoNS()})
			continue
		}
		for _, x := range v.Findings {
			if x.AgoNS != 0 || !(c.any && x.Severity >= findings.SeverityWarn || !c.any && x.ID == c.finding) {
				continue
			}
			v.Causes = append(v.Causes, Cause{*c, x.String(), x.SinceNS - min(w.rules.CauseAgoNS(x.ID), maxLookbackNS)})
			break
		}
	}
	return v
}

// figures has the measurements of a period, from which the figures of conditions are computed.
type figures struct {
	watch          *Watch
	below          bool // the condition is that the figure is below its limit
	fromNS, toNS   int64
	ns             int64 // sampled time
	states         [gvl.NumStates]int64
	heldNS         []account.RactorNS
	gcNS           int64
	waits          gvl.Lengths
	threads        int
	allocated      uint64
	allocatedKnown bool
	cpu            float64 // mean of the figures of all seconds
	cpuKnown       bool
	rss            int64
	backlog        *int64
	quality        sampler.Quality
}

// figures adds up the lines of the last overNS. It returns nil if too little of this time was sampled.
func (w *Watch) figures() *figures {
	n := len(w.kept)
	if n == 0 {
		return nil
	}
	f := &figures{watch: w, fromNS: w.kept[0].line.StartNS, toNS: w.kept[n-1].line.EndNS}
	if f.toNS-f.fromNS < w.overNS {
		return nil
	}
	cpus, all := 0, int64(0)
	for _, k := range w.kept {
		l := &k.line
		if all += l.DurationNS; l.Samples == 0 {
			continue
		}
		f.ns += l.DurationNS - min(k.sums.MissingNS, l.DurationNS)
		for s, ns := range k.sums.NS {
			f.states[s] += ns
		}
		for _, r := range k.sums.HeldNS {
			f.heldNS = account.AddRactor(f.heldNS, r.ID, r.NS)
		}
		f.gcNS += k.sums.GCNS
		f.waits.Merge(&k.sums.Waits)
		f.quality.Add(&k.sums.Quality)
		f.threads, f.rss, f.backlog = l.Threads, l.RSSBytes, l.Backlog
		if l.Allocated != nil {
			f.allocated, f.allocatedKnown = f.allocated+*l.Allocated, true
		}
		if l.CPUShare != nil {
			f.cpu, f.cpuKnown = f.cpu+*l.CPUShare, true
			cpus++
		}
	}
	if float64(f.ns) < knownShare*float64(all) {
		return nil
	}
	f.cpu /= math.Max(float64(cpus), 1)
	return f
}

// held returns the share of the time in which a GVL was held. If there are several ractors, it returns the largest of
// the shares of their GVLs.
func (f *figures) held() float64 {
	most := int64(0)
	for _, r := range f.heldNS {
		most = max(most, r.NS)
	}
	return min(gvl.Ratio(most, f.ns), 1)
}

func stateFigure(s gvl.State) func(*figures, float64) (float64, bool) {
	return func(f *figures, _ float64) (float64, bool) { return gvl.Ratio(f.states[s], f.ns), f.shares() }
}

// shares reports whether there are enough samples to compute shares of the time.
func (f *figures) shares() bool { return f.quality.Lacks(sampler.FigureStates) == "" }

// waitsWith returns the waits for the GVL that have ended, plus the waits in progress that are certainly longer than
// the limit. So a wait that blocks all threads for a minute counts before it ends.
func (f *figures) waitsWith(limit float64) gvl.Lengths {
	l := f.waits.Clone()
	f.watch.stream.Waiting(func(w *gvl.Wait) {
		if float64(w.SureNS()) > limit {
			l.Add(w)
		}
	})
	return l
}

// waitFigure returns a function that computes the quantile q of the lengths of waits. If the condition is "above the
// limit", it uses the proven length of each wait. If the condition is "below the limit", it uses the upper bound. So a
// condition is true only if this is proven. waitTold returns the function that formats the same quantile.
func waitFigure(q float64) func(*figures, float64) (float64, bool) {
	return func(f *figures, limit float64) (float64, bool) {
		l := f.waitsWith(limit)
		sure, _, most := l.Limits(q)
		if f.below {
			return float64(most), l.Count() > 0
		}
		return float64(sure), l.Count() > 0
	}
}

func waitTold(q float64) func(*figures, float64) string {
	return func(f *figures, limit float64) string {
		l := f.waitsWith(limit)
		told := l.Quantile(q)
		if sure, least, _ := l.Limits(q); !f.below && told.Bound == gvl.AtMost && sure == least {
			told = gvl.Bounded{NS: sure, Bound: gvl.AtLeast}
		}
		return told.Prose()
	}
}

// requestFigure returns a function that computes the quantile q of the lengths of requests and jobs.
func requestFigure(q float64) func(*figures, float64) (float64, bool) {
	return func(f *figures, limit float64) (float64, bool) {
		var h gvl.Histogram
		r := f.watch.requests
		for _, e := range r.Endpoints(f.fromNS, f.toNS) {
			h.Merge(&e.Durations)
		}
		for _, x := range r.Running() {
			if ns := x.DurationNS(); float64(ns) > limit {
				h.Add(ns)
			}
		}
		n, _ := h.Count()
		return float64(h.Quantile(q)), n > 0
	}
}
