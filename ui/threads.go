package ui

import (
	"cmp"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// threadsPage is the table of threads. The selected row is that of the timeline, so that it is the same in every view.
type threadsPage struct {
	now *nowView
	plainPage
	table  table[*tableRow, rowKey]
	flat   bool            // without groups
	opened map[string]bool // what the person chose, by group
	// all is what all views have selected, cursor the table's own: a fiber of the selected thread is known here alone.
	all      *selection
	cursor   rowKey
	unfolded map[sampler.ThreadID]bool  // the threads whose fibers are shown
	cpu      map[sampler.ThreadID]int64 // CPU time within cpuNS
	cpuNS    int64
	cpuOf    [2]int64 // the stretch of time that cpu is of
}

// tableRow is a thread, or a group of them.
type tableRow struct {
	row
	cpu    float64 // 1: a whole core
	p99NS  int64
	p99    string
	active bool
	urgent int // the place in urgency of the most urgent state among its threads
	// fibers is how many fibers of a thread wait, unfolded: they are shown below it. fiber is such a one.
	fibers   int
	unfolded bool
	fiber    *fiberRow
}

func newThreadsPage(c *components) *threadsPage {
	p := &threadsPage{now: &c.whereNow, opened: make(map[string]bool), all: c.chosen, unfolded: make(map[sampler.ThreadID]bool)}
	p.table = table[*tableRow, rowKey]{list: list[*tableRow, rowKey]{cursor: &p.cursor},
		columns: threadColumns(), left: 1, natural: inRubysOrder, unsorted: "order", by: "order"}
	p.keyMap = keyMap{title: "threads", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the thread: its stack with the source, its waits; a group: show its members",
			do: func(h Host) tea.Cmd { return p.enter(h) }},
	}, cursorKeys("", "select a thread or group", p.move), []binding{
		{keys: []string{"right", "l"}, show: "→ ←", help: "open and close a group, or the fibers of a thread (also l, h)",
			do: func(h Host) tea.Cmd { p.expand(h, true); return nil }},
		{keys: []string{"left", "h"}, do: func(h Host) tea.Cmd { p.expand(h, false); return nil }},
	}, sortKeys("sort by the next or previous column", func() sorter { return &p.table }), []binding{
		{keys: []string{"t"}, show: "t", short: "groups", help: "threads in groups by their names, or each on its own",
			do: func(h Host) tea.Cmd { p.flat = !p.flat; h.Refresh(); return nil }},
	})}
	return p
}

func (p *threadsPage) about(sc *scene) string {
	s := fmt.Sprintf("%s · %s · by %s", sc.threads.counted(), sc.when(), p.table.by)
	if p.table.reverse {
		s += " reversed"
	}
	return s
}

func (p *threadsPage) detail(sc *scene) (name, rest string) {
	i := p.table.index()
	if i < 0 {
		return "", ""
	}
	if f := p.table.rows[i].fiber; f != nil {
		return cmp.Or(f.name, "a fiber of "+p.table.rows[i].name), "waits   " + f.what
	}
	return sc.rowDetail(&p.table.rows[i].row)
}

// enter opens the selected thread, or opens and closes the selected group.
func (p *threadsPage) enter(h Host) tea.Cmd {
	i := p.table.index()
	if i < 0 {
		return p.move(h, step{rows: +1})
	}
	if w := p.table.rows[i]; w.isGroup {
		p.expand(h, !w.open)
		return nil
	}
	return h.Open(pageThread)
}

func (p *threadsPage) move(h Host, by step) tea.Cmd {
	p.table.move(by)
	p.choose()
	h.Refresh()
	return nil
}

// expand opens or closes the selected group; closing a member closes its group.
func (p *threadsPage) expand(h Host, open bool) {
	if !p.unfold(open) {
		expand(&p.table.list, p.opened, open)
	}
	p.choose()
	h.Refresh()
}

func (p *threadsPage) load(sc *scene, r *store.Reading) {
	p.loadCPU(sc)
	waits := r.Waits.Events.ByThread(sc.atNS-sc.windowNS, sc.atNS, sc.states, store.ListOf{})
	p.follow()
	p.build(sc, waits)
	p.table.rows = p.withFibers(sc, p.table.rows)
	if p.cursor.fiber != 0 && p.table.index() < 0 {
		p.cursor = p.cursor.bare() // the fiber waits no more
	}
	p.choose()
}

// loadCPU sums the CPU time by thread. The weights it comes from are kept for the flamegraph, for any stretch of time.
func (p *threadsPage) loadCPU(sc *scene) {
	s := &sc.weights
	if of := [2]int64{s.FromNS, s.ToNS}; p.cpu == nil || of != p.cpuOf {
		p.cpuOf, p.cpuNS = of, s.ToNS-s.FromNS
		p.cpu = make(map[sampler.ThreadID]int64)
		for i := range s.Entries {
			p.cpu[s.Entries[i].Key.Thread] += s.Entries[i].Weights.CPUNS
		}
	}
}

// build makes the rows: groups with their members, sorted.
func (p *threadsPage) build(sc *scene, waits map[sampler.ThreadID]*store.ThreadWaits) {
	threads, t := sc.threads, &p.table
	single := make([]*tableRow, len(threads))
	names := make([]string, len(threads))
	for i := range threads {
		th := &threads[i]
		names[i] = th.name
		w := &tableRow{row: sc.threads.row(i, false), cpu: style.Share(p.cpu[th.id], p.cpuNS), p99: "–",
			active: th.active, urgent: len(urgency)}
		if th.seen {
			w.urgent = slices.Index(urgency[:], th.state.State)
		}
		if of := waits[th.id]; of != nil {
			w.p99NS, w.p99 = of.Lengths.Quantile(0.99).NS, of.P99()
		}
		single[i] = w
	}
	t.rows = t.rows[:0]
	if p.flat {
		t.rows = append(t.rows, slices.DeleteFunc(single, func(w *tableRow) bool { return threads[w.members[0]].leftOut })...)
		t.sort(t.rows)
		return
	}
	groups := threads.listedOf(groupThreads(names))
	heads := make([]*tableRow, len(groups))
	for i, g := range groups {
		if g.name == "" {
			heads[i] = single[g.members[0]]
			continue
		}
		h := &tableRow{row: row{key: rowKey{group: g.name}, name: fmt.Sprintf("%s ×%d", g.name, len(g.members)), members: g.members, isGroup: true},
			p99: "–", urgent: len(urgency)}
		for _, k := range g.members {
			w := single[k]
			for s, ns := range w.totals {
				h.totals[s] += ns
			}
			h.cpu += w.cpu
			h.urgent = min(h.urgent, w.urgent)
			if w.p99NS > h.p99NS {
				h.p99NS, h.p99 = w.p99NS, w.p99
			}
		}
		h.active = threads.anyActive(g.members, sc.toNS-sc.fromNS)
		heads[i] = h
	}
	t.sort(heads)
	rows := len(heads)
	for _, h := range heads {
		chosen, said := p.opened[h.key.group]
		within := slices.ContainsFunc(h.members, func(k int) bool { return threads[k].id == t.cursor.thread })
		if h.isGroup && within && said && !chosen { // it was selected in another view: its group stands for it
			*t.cursor = h.key
		}
		fits := rows+len(h.members) <= sc.bodyRows()-1 && !threads.mostlyGone(h.members)
		h.open = h.isGroup && (chosen || !said && (within || fits))
		t.rows = append(t.rows, h)
		if h.open {
			rows += len(h.members)
			from := len(t.rows)
			for _, k := range h.members {
				single[k].inGroup = true
				t.rows = append(t.rows, single[k])
			}
			t.sort(t.rows[from:])
		}
	}
}

// inRubysOrder puts threads that did something first.
func inRubysOrder(x, y *tableRow) int {
	switch {
	case x.active == y.active:
		return cmp.Compare(x.members[0], y.members[0])
	case x.active:
		return -1
	}
	return 1
}

// part is the share of the row's time in some states.
func (w *tableRow) part(states ...gvl.State) float64 {
	var of int64
	for _, s := range states {
		of += w.totals[s]
	}
	return style.Share(of, units.Sum(w.totals[:]))
}

func (p *threadsPage) stack(sc *scene) (string, []string) {
	i := p.table.index()
	if i < 0 || p.table.rows[i].isGroup {
		return "", nil
	}
	return sc.threadStack(&sc.threads[p.table.rows[i].members[0]])
}
