package threads

import (
	"cmp"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageThreads,
	Key:    "2",
	Help:   "the table of threads; enter opens one with its stack and source",
	Shared: page.SearchShared,
	Make:   page.Makes(New),
}

// Page is the table of threads. The thread or group that is selected in it is also selected in the other views.
type Page struct {
	now *widget.Now
	page.Plain
	Table  widget.Table[*TableRow, scene.RowKey]
	flat   bool            // threads are not grouped
	opened map[string]bool // by a group's name: true if the user opened the group, false if the user closed it
	// The field all is the selection that the views share. Cursor is the selected row of this table. They can differ,
	// because only this table has rows of fibers.
	all      *scene.Selection
	Cursor   scene.RowKey
	unfolded map[sampler.ThreadID]bool  // the threads whose fibers are shown
	cpu      map[sampler.ThreadID]int64 // the CPU time of each thread within a period that is cpuNS long
	cpuNS    int64
	cpuOf    [2]int64 // the beginning and the end of this period
}

// TableRow is a row of the table: a thread, a group of threads, or a fiber.
type TableRow struct {
	scene.Row
	CPU    float64 // in CPUs
	p99NS  int64
	p99    string
	active bool
	urgent int // index, in gvl.ByUrgency, of the row's most urgent state
	// fibers is how many fibers of the thread wait. unfolded is true if they are listed below the thread. fiber is set
	// only if this row is itself one of the listed fibers.
	fibers   int
	unfolded bool
	fiber    *fiberRow
}

func New(c *widget.Parts) *Page {
	p := &Page{now: &c.Now, opened: make(map[string]bool), all: c.Chosen, unfolded: make(map[sampler.ThreadID]bool)}
	p.Table = widget.Table[*TableRow, scene.RowKey]{List: widget.List[*TableRow, scene.RowKey]{Cursor: &p.Cursor},
		Columns: threadColumns(), Left: 1, Natural: inRubysOrder, Unsorted: "order", By: "order"}
	p.KeyMap = scene.KeyMap{Title: "threads", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "open", Help: "open the thread with its stack, source and waits, or open the group",
			Do: func(h scene.Host) tea.Cmd { return p.enter(h) }},
	}, widget.CursorKeys("", "select a thread or group", p.move), []scene.Binding{
		{Keys: []string{"right", "l"}, Show: "→ ←", Help: "open and close a group, or the fibers of a thread (also l, h)",
			Do: func(h scene.Host) tea.Cmd { p.expand(h, true); return nil }},
		{Keys: []string{"left", "h"}, Do: func(h scene.Host) tea.Cmd { p.expand(h, false); return nil }},
	}, widget.SortKeys("sort by the next or previous column", func() widget.Sorter { return &p.Table }), []scene.Binding{
		{Keys: []string{"t"}, Show: "t", Short: "groups", Help: "threads in groups by their names, or each on its own",
			Do: func(h scene.Host) tea.Cmd { p.flat = !p.flat; h.Refresh(); return nil }},
	})}
	return p
}

func (p *Page) About(sc *scene.Scene) string {
	s := sc.Threads.Counted() + style.Between + sc.When()
	if by := p.Table.Sorted("order"); by != "" {
		s += style.Between + by
	}
	if why := sc.Figures.Why(sampler.FigureStates, sampler.FigureWaits); why != "" {
		s = why + style.Between + s
	}
	return s
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	i := p.Table.Index()
	if i < 0 {
		return "", ""
	}
	if f := p.Table.Rows[i].fiber; f != nil {
		return cmp.Or(f.name, "a fiber of "+p.Table.Rows[i].Name), "waits   " + f.what
	}
	return sc.RowDetail(&p.Table.Rows[i].Row)
}

// enter is the action of the key enter: it opens the page of the selected thread. If a group is selected, it opens or
// closes the group.
func (p *Page) enter(h scene.Host) tea.Cmd {
	i := p.Table.Index()
	if i < 0 {
		return p.move(h, widget.Step{Rows: +1})
	}
	if w := p.Table.Rows[i]; w.IsGroup {
		p.expand(h, !w.Open)
		return nil
	}
	return h.Open(scene.PageThread)
}

func (p *Page) move(h scene.Host, by widget.Step) tea.Cmd {
	p.Table.Move(by)
	p.choose()
	h.Refresh()
	return nil
}

// expand opens or closes the selected group, or the list of fibers of the selected thread. If a thread of a group is
// selected and open is false, it closes the whole group.
func (p *Page) expand(h scene.Host, open bool) {
	if !p.unfold(open) {
		widget.Expand(&p.Table.List, p.opened, open)
	}
	p.choose()
	h.Refresh()
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	p.loadCPU(sc)
	waits := r.Waits.ByThread(sc.AtNS-sc.WindowNS, sc.AtNS, sc.States, store.ListOf{})
	p.follow()
	p.build(sc, waits)
	p.Table.Rows = p.withFibers(sc, p.Table.Rows)
	if p.Cursor.Fiber != 0 && p.Table.Index() < 0 {
		p.Cursor = p.Cursor.Bare() // the fiber has ended or runs
	}
	p.choose()
}

// loadCPU adds up the CPU time of each thread from the flamegraph's weights, because the weights are known for any time
// span.
func (p *Page) loadCPU(sc *scene.Scene) {
	s := &sc.Weights
	if of := [2]int64{s.FromNS, s.ToNS}; p.cpu == nil || of != p.cpuOf {
		p.cpuOf, p.cpuNS = of, s.ToNS-s.FromNS
		p.cpu = make(map[sampler.ThreadID]int64)
		for i := range s.Entries {
			p.cpu[s.Entries[i].Key.Thread] += s.Entries[i].Weights.CPUNS
		}
	}
}

// build makes the rows of the table and sorts them. Each group is followed by its threads.
func (p *Page) build(sc *scene.Scene, waits map[sampler.ThreadID]*store.ThreadWaits) {
	threads, t := sc.Threads, &p.Table
	single := make([]*TableRow, len(threads))
	names := make([]string, len(threads))
	for i := range threads {
		th := &threads[i]
		names[i] = th.Name
		w := &TableRow{Row: sc.Threads.Row(i, false), CPU: style.Share(p.cpu[th.ID], p.cpuNS), p99: "–",
			active: th.Active, urgent: len(gvl.ByUrgency)}
		if th.Seen {
			w.urgent = slices.Index(gvl.ByUrgency[:], th.State.State)
		}
		if of := waits[th.ID]; of != nil {
			w.p99NS, w.p99 = of.Lengths.Quantile(0.99).NS, of.P99()
		}
		single[i] = w
	}
	t.Rows = t.Rows[:0]
	if p.flat {
		t.Rows = append(t.Rows, slices.DeleteFunc(single, func(w *TableRow) bool { return threads[w.Members[0]].LeftOut })...)
		t.Sort(t.Rows)
		return
	}
	groups := threads.ListedOf(scene.GroupThreads(names))
	heads := make([]*TableRow, len(groups))
	for i, g := range groups {
		if g.Name == "" {
			heads[i] = single[g.Members[0]]
			continue
		}
		h := &TableRow{Row: threads.GroupRow(g), p99: "–", urgent: len(gvl.ByUrgency)}
		for _, k := range g.Members {
			w := single[k]
			h.CPU += w.CPU
			h.urgent = min(h.urgent, w.urgent)
			if w.p99NS > h.p99NS {
				h.p99NS, h.p99 = w.p99NS, w.p99
			}
		}
		h.active = threads.AnyActive(g.Members, sc.ToNS-sc.FromNS)
		heads[i] = h
	}
	t.Sort(heads)
	rows := len(heads)
	for _, h := range heads {
		chosen, said := p.opened[h.Key.Group]
		within := slices.ContainsFunc(h.Members, func(k int) bool { return threads[k].ID == t.Cursor.Thread })
		// another view selected a thread of this closed group, so select the group's row
		if h.IsGroup && within && said && !chosen {
			*t.Cursor = h.Key
		}
		fits := rows+len(h.Members) <= sc.BodyRows()-1 && !threads.MostlyGone(h.Members)
		h.Open = h.IsGroup && (chosen || !said && (within || fits))
		t.Rows = append(t.Rows, h)
		if h.Open {
			rows += len(h.Members)
			from := len(t.Rows)
			for _, k := range h.Members {
				single[k].InGroup = true
				t.Rows = append(t.Rows, single[k])
			}
			t.Sort(t.Rows[from:])
		}
	}
}

// inRubysOrder compares two rows, for sorting. Active threads come before other threads. Within both parts, the order
// is the order of Ruby's own list.
func inRubysOrder(x, y *TableRow) int {
	switch {
	case x.active == y.active:
		return cmp.Compare(x.Members[0], y.Members[0])
	case x.active:
		return -1
	}
	return 1
}

// part returns which share of the row's time was spent in the given states, from 0 to 1.
func (w *TableRow) part(states ...gvl.State) float64 {
	var of int64
	for _, s := range states {
		of += w.Totals[s]
	}
	return style.Share(of, units.Sum(w.Totals[:]))
}

func (p *Page) Stack(sc *scene.Scene) (string, []string) {
	i := p.Table.Index()
	if i < 0 || p.Table.Rows[i].IsGroup {
		return "", nil
	}
	return sc.ThreadStack(&sc.Threads[p.Table.Rows[i].Members[0]])
}

func (w *TableRow) Line() *scene.Row { return &w.Row }
