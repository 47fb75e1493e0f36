package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/growth"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// part is one of the page's parts, of which the page shows one at a time.
type part int

const (
	collectorPart part = iota
	classesPart
	typesPart
	slotsPart    // the slots by size, and how full their pages are
	consistsPart // what the resident memory consists of
	numParts
)

var partNames = [numParts]string{"collector", "classes", "types", "slots", "parts"}

const (
	// countEvery is the interval between the beginnings of two counts of the heap. The pause after a count is at least
	// countRest times the time that the count took. So long counts are rare, and enough of ddtop's CPU budget is left
	// for samples.
	countEvery, countRest = 10 * time.Second, 2
	// Each count of the heap also finds out which kinds of memory make up the resident memory, if this takes at most
	// quickMemory. If it takes longer, ddtop does this only while the page shows these kinds of memory.
	quickMemory = 2 * time.Second
	// maxCurve limits the points of a curve. A curve with more points loses every second point.
	maxCurve = 512
)

// counts holds the results of the page's counts of the heap.
type counts struct {
	busy  bool
	next  time.Time // when the next count may begin
	err   error     // the error of the last count
	watch growth.Watch
	named map[string]growth.Class // the classes that grow, by name
	// Last is the result of the last count of the heap. It is nil before the first count has ended.
	Last  *export.Heap
	count *sampler.HeapCount
	// base is the count of the heap from which growth is measured. It has the numbers of objects by class and by type.
	// At first it is the first count. After the user has set a mark (Scene.Notes), it is the last count before the
	// latest mark. markNS is the time of this mark, or zero.
	base           [numParts]map[string]report.HeapKind
	baseNS, markNS int64
	// The field first is the first count that includes the kinds of memory. The field consists has a curve for each
	// kind of memory. The field slow is true if it takes long to read the kinds of memory.
	first    export.Before
	consists []*series
	slow     bool
}

// answer is the answer to a question of the user about the heap. The question is which objects refer to the objects of
// a class, or which objects are largest.
type answer struct {
	of          string // the class, or empty if the question is about the largest objects
	cancel      context.CancelFunc
	done, total atomic.Int64
	hurry       atomic.Bool
	lines       []string // nil until the answer arrives
	err         error
	rows        []string // the lines, folded to the width of the screen
	top, height int
}

// title returns the question.
func (a *answer) title() string {
	if a.of == "" {
		return "the largest objects"
	}
	return "what holds " + a.of
}

// kindRow is a row of the table: the objects of one class or type.
type kindRow struct {
	*report.HeapKind
	grown   int64 // by how much the number of the row's old objects has grown since the base
	since   bool  // true if grown is known
	perSec  float64
	growing *growth.Class // nil if the class does not grow all the time
}

// ID returns the name of the class or type. No other row has the same name.
func (r kindRow) ID() string { return r.Name }

// countMsg delivers the result of a count of the heap. answerMsg delivers the answer to a question about the heap.
type (
	countMsg struct {
		of     *Page
		began  time.Time
		took   time.Duration
		count  *sampler.HeapCount
		memory *sampler.MemoryParts
		err    error
	}
	answerMsg struct {
		of   *answer
		text string
		err  error
	}
)

// ForPage marks countMsg and answerMsg as messages for pages.
func (countMsg) ForPage()  {}
func (answerMsg) ForPage() {}

// LastCount returns the result of the last count of the heap's live objects. It is nil before the first count has
// ended.
func (p *Page) LastCount() *export.Heap { return p.Counts.Last }

// The page's part about the collector needs no counts. While this part is shown, ddtop counts the heap only if the
// resident memory has grown in the time on the screen. The growth must be at least leastGrown bytes, and at least
// leastGrownShare of the size at the beginning.
const leastGrown, leastGrownShare = 8_000_000, 0.02

// wanted reports whether ddtop should count the heap now. It should if the page shows counts, or if the memory grows.
func (p *Page) wanted(sc *scene.Scene) bool {
	if sc.Page == scene.PageMemory && p.part != collectorPart {
		return true
	}
	if slices.ContainsFunc(sc.Findings.Current(), func(f findings.Finding) bool { return f.ID == memoryGrows }) {
		return true
	}
	grown := float64(p.At.Proc.RSSBytes - p.from.Proc.RSSBytes)
	return sc.Page == scene.PageMemory && p.from.Proc.RSSBytes > 0 && grown >= max(leastGrown, leastGrownShare*float64(p.from.Proc.RSSBytes))
}

// memoryGrows is the ID of the finding that says that the memory grows.
const memoryGrows = "memory_grows"

// Growing extends the finding that the memory grows, if list has this finding. It adds two things to the finding: the
// class that grows most, and the keys that show what refers to the objects of this class. It changes the elements of
// list.
func (p *Page) Growing(list []findings.Finding) {
	for i := range list {
		f := &list[i]
		if f.ID != memoryGrows || f.AgoNS != 0 || p.Counts.Last == nil {
			continue
		}
		suspect, others := p.Counts.Last.Suspect()
		switch {
		case suspect != nil:
			f.Text += "; " + export.GrowingText(suspect) + others
			f.Next = "7, then → to classes: h on " + flamegraph.Printable(suspect.Name) + " shows what holds it"
		case p.Counts.Last.GrownText() != "":
			f.Text += ". " + strings.TrimSuffix(p.Counts.Last.GrownText(), ".")
		}
	}
}

// Fetch returns the command that counts the heap. It returns nil if no count is needed, or if it is too early for the
// next count.
func (p *Page) Fetch(h scene.Host) tea.Cmd {
	sc, c := h.Showing(), &p.Counts
	began := sc.Now()
	if sc.Opt.Heap == nil || !p.wanted(sc) || sc.Source.Done || c.busy || p.asked.waits() || began.Before(c.next) {
		return nil
	}
	c.busy = true
	reader, memory := sc.Opt.Heap(sc.Process.PID), p.part == consistsPart || !c.slow
	return func() tea.Msg {
		x := countMsg{of: p, began: began}
		start := time.Now()
		x.count, x.memory, x.err = reader.Count(context.Background(), memory)
		x.took = time.Since(start)
		return x
	}
}

// waits reports whether an answer is awaited.
func (a *answer) waits() bool { return a != nil && a.lines == nil && a.err == nil }

// Fetched stores the result of a count, or the answer to a question. It is called when the message with this result or
// answer arrives.
func (p *Page) Fetched(h scene.Host, msg tea.Msg) {
	switch x := msg.(type) {
	case countMsg:
		if x.of != p {
			return
		}
		p.Counts.add(h.Showing(), &x)
	case answerMsg:
		if x.of != p.asked {
			return
		}
		x.of.err = x.err
		x.of.lines = strings.Split(strings.TrimRight(x.text, "\n"), "\n")
	default:
		return
	}
	h.Refresh()
}

// add stores the result of a count.
func (c *counts) add(sc *scene.Scene, x *countMsg) {
	c.busy, c.err = false, x.err
	c.next = x.began.Add(max(countEvery, (1+countRest)*x.took))
	if x.err != nil {
		return
	}
	if n := sc.Notes.Last(x.count.BeganNS); n != nil && n.AtNS != c.markNS {
		c.markNS = n.AtNS
		if c.Last != nil { // c.Last is the last count before the mark, so it becomes the base
			c.rebase()
		}
	}
	c.watch.Add(x.count)
	c.named = make(map[string]growth.Class)
	for _, k := range c.watch.Classes() {
		c.named[k.Name] = k
	}
	if x.memory != nil {
		c.slow = x.took-time.Duration(x.count.EndedNS-x.count.BeganNS) > quickMemory
	}
	memory := c.Last
	if sc.HidesNames() {
		x.count.Traced = redact.BareTraced(x.count.Traced)
	}
	c.Last, c.count = export.NewHeap(sc.Shareable(), x.count, &c.watch), x.count
	switch {
	case x.memory != nil:
		if c.first.Memory == nil {
			c.first = export.Before{Memory: x.memory, Count: x.count}
		}
		c.Last.Memory(x.memory, x.count, c.first)
		c.curves(x.memory)
	case memory != nil:
		c.Last.Heap.Memory = memory.Heap.Memory
	}
	if c.baseNS == 0 {
		c.rebase()
	}
}

// rebase makes the last count the base: from then on growth is measured from it.
func (c *counts) rebase() {
	of := func(list []report.HeapKind) map[string]report.HeapKind {
		m := make(map[string]report.HeapKind, len(list))
		for _, k := range list {
			m[k.Name] = k
		}
		return m
	}
	c.base[classesPart], c.base[typesPart] = of(c.Last.Classes), of(c.Last.Types)
	c.baseNS = c.count.BeganNS
}

// curves adds one point to the curve of each kind of memory. m has the sizes.
func (c *counts) curves(m *sampler.MemoryParts) {
	had := 0
	if len(c.consists) > 0 {
		had = len(c.consists[0].values)
	}
	add := func(name string, n uint64) {
		var s *series
		for _, x := range c.consists {
			if x.name == name {
				s = x
			}
		}
		if s == nil {
			s = &series{name: name, level: true, unit: func(n float64) string { return units.Bytes(int64(n)) }, values: make([]float64, had)}
			c.consists = append(c.consists, s)
		}
		s.values = append(s.values, float64(n))
	}
	add("RSS", m.RSS)
	for _, p := range m.Parts {
		add(strings.TrimSuffix(p.Kind, " memory"), p.Bytes)
	}
	for _, s := range c.consists {
		if len(s.values) == had { // there is no memory of this kind now
			s.values = append(s.values, 0)
		}
		if len(s.values) > maxCurve {
			for i := range maxCurve / 2 {
				s.values[i] = s.values[2*i]
			}
			s.values = append(s.values[:maxCurve/2], s.values[maxCurve])
		}
		s.value = units.Bytes(int64(s.values[len(s.values)-1]))
		s.fit(1)
	}
}

// since returns a text that says since what time the shown growth is measured.
func (c *counts) since(sc *scene.Scene) string {
	at := sc.Process.WallTime(c.baseNS).Format("15:04:05")
	if n := sc.Notes.Last(c.markNS); n != nil && c.markNS != 0 {
		return fmt.Sprintf("grown since %s, mark %q", at, n.Text)
	}
	return "grown since " + at + "; m begins anew"
}

// loadRows fills the table with the classes or types of objects.
func (p *Page) loadRows() {
	t, c := &p.Table, &p.Counts
	t.Rows = t.Rows[:0]
	if c.Last == nil {
		return
	}
	list, base := c.Last.Classes, c.base[classesPart]
	if p.part == typesPart {
		list, base = c.Last.Types, c.base[typesPart]
	}
	seconds := float64(c.count.BeganNS-c.baseNS) / 1e9
	re := p.flame.Listed()
	for i := range list {
		r := kindRow{HeapKind: &list[i]}
		if re != nil && !re.MatchString(r.Name) {
			continue
		}
		if seconds > 0 {
			r.grown, r.since = int64(r.Old)-int64(base[r.Name].Old), true
			r.perSec = float64(r.grown) / seconds
		}
		if k, ok := c.named[r.Name]; ok && p.part == classesPart {
			r.growing, r.perSec, r.since = &k, k.PerSecond, true
		}
		t.Rows = append(t.Rows, r)
	}
	t.Sort(t.Rows)
}

// Lists reports whether the table of classes or types is shown.
func (p *Page) Lists() bool { return p.asked == nil && (p.part == classesPart || p.part == typesPart) }

// Found returns the number of rows that match the search, as text: "3 rows".
func (p *Page) Found() string {
	return units.Plural(len(p.Table.Rows), "row", "rows")
}

// turn returns the action of a key that shows another part of the page. The parameter by says how many places this part
// comes after the present part in the list of parts.
func (p *Page) turn(by part) func(h scene.Host) tea.Cmd {
	return func(h scene.Host) tea.Cmd { return p.turnTo(h, (p.part+by+numParts)%numParts) }
}

func (p *Page) turnTo(h scene.Host, to part) tea.Cmd {
	if h.Showing().Opt.Heap == nil {
		h.Message().Tell("objects are counted in a running process, not in a recording")
		return nil
	}
	if to == consistsPart && len(p.Counts.consists) == 0 {
		p.Counts.next = time.Time{}
	}
	p.part, p.Table.Top = to, 0
	h.Refresh()
	return p.Fetch(h)
}

// ask returns the action of a key that asks a question about the heap: which objects refer to the selected class's
// objects. If biggest is true, the question is instead which objects are the largest.
func (p *Page) ask(biggest bool) func(h scene.Host) tea.Cmd {
	return func(h scene.Host) tea.Cmd {
		of := ""
		if !biggest {
			i := p.Table.Index()
			switch {
			case i < 0:
				return p.move(h, widget.Step{Rows: +1})
			case p.part != classesPart || p.Table.Rows[i].Name == sampler.AllocOthers:
				h.Message().Tell("select a class: ← → leads to the classes")
				return nil
			}
			of = p.Table.Rows[i].Name
		}
		reader := h.Showing().Opt.Heap(h.Showing().Process.PID)
		ctx, cancel := context.WithCancel(context.Background())
		a := &answer{of: of, cancel: cancel}
		p.asked = a
		h.Refresh()
		return func() tea.Msg {
			text, err := reader.Explain(ctx, of, a.hurry.Load, func(done, total int) { a.done.Store(int64(done)); a.total.Store(int64(total)) })
			return answerMsg{a, text, err}
		}
	}
}

// hurry is the action of a key while the page waits for an answer. It lets ddtop use a whole CPU to copy the heap, so
// that the answer comes sooner.
func (p *Page) hurry(h scene.Host) tea.Cmd {
	if p.asked.waits() {
		p.asked.hurry.Store(true)
	}
	return nil
}

// leave closes the answer that the page shows. If the answer has not arrived yet, leave cancels the work on it.
func (p *Page) leave(h scene.Host) tea.Cmd {
	p.asked.cancel()
	p.asked = nil
	h.Refresh()
	return nil
}

func (p *Page) move(_ scene.Host, by widget.Step) tea.Cmd {
	if a := p.asked; a != nil {
		a.top = max(0, min(a.top+by.Rows+by.Screens*max(a.height-1, 1), len(a.rows)-a.height))
		return nil
	}
	p.Table.Move(by)
	return nil
}

// heavier returns a function that compares rows, for sorting. The row with the largest weight comes first.
func heavier(of func(r kindRow) float64) func(x, y kindRow) int {
	return func(x, y kindRow) int { return cmp.Or(cmp.Compare(of(y), of(x)), cmp.Compare(x.Name, y.Name)) }
}
