package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// threadsPage is the table of threads. The selected row is that of the timeline, so that it is the same in every view.
type threadsPage struct {
	keys    keyMap
	sort    sortBy
	reverse bool
	flat    bool            // without groups
	opened  map[string]bool // what the person chose, by group
	top     int             // first row drawn
	drawn   int
	rows    []tableRow
	cpu     map[sampler.ThreadID]int64 // CPU time within cpuNS
	cpuNS   int64
	cpuOf   [2]int64 // the stretch of time that cpu is of
}

// sortBy is a column of the table.
type sortBy uint8

const (
	byOrder sortBy = iota // Ruby's own, threads that did something first
	byName
	byState
	byRun
	byWait
	byIO
	byCPU
	byP99
	numSorts
)

var sortNames = [numSorts]string{"order", "name", "state", "run", "wait", "io", "CPU", "waits p99"}

// tableRow is a thread, or a group of them.
type tableRow struct {
	row
	cpu    float64 // 1: a whole core
	p99NS  int64
	p99    string
	active bool
}

func newThreadsPage() *threadsPage {
	p := &threadsPage{opened: make(map[string]bool)}
	moved := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.move(m, n); return nil }
	}
	page := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.move(m, n*max(p.drawn-1, 1)); return nil }
	}
	p.keys = keyMap{title: "threads", bindings: []binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the thread: its stack with the source, its waits; a group: show its members",
			do: func(m *Model) tea.Cmd { return p.enter(m) }},
		{keys: []string{"up", "k"}, show: "↑ ↓", help: "select a thread or group (also k, j; page keys, home, end)", do: moved(-1)},
		{keys: []string{"down", "j"}, do: moved(+1)},
		{keys: []string{"pgup"}, do: page(-1)},
		{keys: []string{"pgdown"}, do: page(+1)},
		{keys: []string{"home", "g"}, do: moved(-maxRows)},
		{keys: []string{"end", "G", "shift+g"}, do: moved(maxRows)},
		{keys: []string{"right", "l"}, show: "→ ←", help: "open and close a group (also l, h)",
			do: func(m *Model) tea.Cmd { p.expand(m, true); return nil }},
		{keys: []string{"left", "h"}, do: func(m *Model) tea.Cmd { p.expand(m, false); return nil }},
		{keys: []string{">", "."}, show: "< >", short: "sort", help: "sort by the next or previous column (also , .)",
			do: func(m *Model) tea.Cmd { p.sort = (p.sort + 1) % numSorts; m.refresh(); return nil }},
		{keys: []string{"<", ","}, do: func(m *Model) tea.Cmd { p.sort = (p.sort + numSorts - 1) % numSorts; m.refresh(); return nil }},
		{keys: []string{"r"}, show: "r", short: "reverse", help: "sort the other way round",
			do: func(m *Model) tea.Cmd { p.reverse = !p.reverse; m.refresh(); return nil }},
		{keys: []string{"t"}, show: "t", short: "groups", help: "threads in groups by their names, or each on its own",
			do: func(m *Model) tea.Cmd { p.flat = !p.flat; m.refresh(); return nil }},
	}}
	return p
}

func (p *threadsPage) keyMap() *keyMap { return &p.keys }

func (p *threadsPage) about(m *Model) string {
	s := fmt.Sprintf("%s threads · %s · by %s", units.Count(int64(len(m.timeline.threads))), m.when(), sortNames[p.sort])
	if p.reverse {
		s += " reversed"
	}
	return s
}

func (p *threadsPage) detail(m *Model) (name, rest string) {
	if i := p.index(m); i >= 0 {
		return m.rowDetail(&p.rows[i].row)
	}
	return "", ""
}

// enter opens the selected thread, or opens and closes the selected group.
func (p *threadsPage) enter(m *Model) tea.Cmd {
	i := p.index(m)
	if i < 0 {
		p.move(m, +1)
		return nil
	}
	if p.rows[i].isGroup {
		p.expand(m, !p.rows[i].open)
		return nil
	}
	return m.open(pageThread)
}

// sortFrom sorts by a column whose head was clicked: the other way round when it is that one already.
func (p *threadsPage) sortFrom(m *Model, by sortBy) {
	p.reverse = p.sort == by && !p.reverse
	p.sort = by
	m.refresh()
}

func (p *threadsPage) index(m *Model) int {
	return slices.IndexFunc(p.rows, func(w tableRow) bool { return w.key == m.timeline.selected })
}

func (p *threadsPage) move(m *Model, n int) {
	if len(p.rows) == 0 {
		return
	}
	i := p.index(m)
	if i < 0 {
		i = -1
		if n < 0 {
			i = len(p.rows)
		}
	}
	m.timeline.selected = p.rows[max(0, min(i+n, len(p.rows)-1))].key
	m.refresh()
}

// expand opens or closes the selected group; closing a member closes its group.
func (p *threadsPage) expand(m *Model, open bool) {
	for i := p.index(m); i >= 0; i-- {
		if w := &p.rows[i]; w.isGroup {
			p.opened[w.key.group] = open
			if !open {
				m.timeline.selected = w.key
			}
			break
		} else if !w.inGroup {
			break
		}
	}
	m.refresh()
}

func (p *threadsPage) load(m *Model, r *reading) {
	p.drawn = m.bodyRows() - 1
	p.loadCPU(m)
	waits := r.waits.events.byThread(m.atNS-m.windowNS, m.atNS, m.states, listOf{})
	p.build(m, waits)
}

// loadCPU sums the CPU time by thread. The weights it comes from are kept for the flamegraph, for any stretch of time.
func (p *threadsPage) loadCPU(m *Model) {
	s := &m.flame.snapshot
	if of := [2]int64{s.FromNS, s.ToNS}; p.cpu == nil || of != p.cpuOf {
		p.cpuOf, p.cpuNS = of, s.ToNS-s.FromNS
		p.cpu = make(map[sampler.ThreadID]int64)
		for i := range s.Entries {
			p.cpu[s.Entries[i].Key.Thread] += s.Entries[i].Weights.CPUNS
		}
	}
}

// build makes the rows: groups with their members, sorted.
func (p *threadsPage) build(m *Model, waits map[sampler.ThreadID]*threadWaits) {
	threads := m.timeline.threads
	single := make([]tableRow, len(threads))
	names := make([]string, len(threads))
	for i := range threads {
		t := &threads[i]
		names[i] = t.name
		single[i] = tableRow{row: m.timeline.threadRow(i, false), cpu: share(p.cpu[t.id], p.cpuNS), p99: "–", active: t.active}
		if w := waits[t.id]; w != nil {
			single[i].p99NS, single[i].p99 = w.quantile(0.99), w.p99()
		}
	}
	p.rows = p.rows[:0]
	if p.flat {
		p.rows = append(p.rows, single...)
		p.order(m, p.rows)
		return
	}
	groups := groupThreads(names)
	heads := make([]tableRow, len(groups))
	for i, g := range groups {
		if g.name == "" {
			heads[i] = single[g.members[0]]
			continue
		}
		h := tableRow{row: row{key: rowKey{group: g.name}, name: fmt.Sprintf("%s ×%d", g.name, len(g.members)), members: g.members, isGroup: true}, p99: "–"}
		for _, k := range g.members {
			w := &single[k]
			for s, ns := range w.totals {
				h.totals[s] += ns
			}
			h.cpu += w.cpu
			h.active = h.active || w.active
			if w.p99NS > h.p99NS {
				h.p99NS, h.p99 = w.p99NS, w.p99
			}
		}
		heads[i] = h
	}
	p.order(m, heads)
	rows := len(heads)
	for i := range heads {
		h := &heads[i]
		chosen, said := p.opened[h.key.group]
		h.open = h.isGroup && (chosen || !said && rows+len(h.members) <= p.drawn)
		if h.open {
			rows += len(h.members)
		}
		p.rows = append(p.rows, *h)
		if h.open {
			from := len(p.rows)
			for _, k := range h.members {
				w := single[k]
				w.inGroup = true
				p.rows = append(p.rows, w)
			}
			p.order(m, p.rows[from:])
		}
	}
}

// order sorts rows by the chosen column, ties in Ruby's order.
func (p *threadsPage) order(m *Model, rows []tableRow) {
	part := func(w *tableRow, states ...gvl.State) float64 {
		var of, sum int64
		for _, ns := range w.totals {
			sum += ns
		}
		for _, s := range states {
			of += w.totals[s]
		}
		return share(of, sum)
	}
	compare := func(x, y *tableRow) int {
		switch p.sort {
		case byName:
			return strings.Compare(x.name, y.name)
		case byState:
			return cmp.Compare(p.urgency(m, x), p.urgency(m, y))
		case byRun:
			return cmp.Compare(part(y, gvl.Running, gvl.Stalled, gvl.GC), part(x, gvl.Running, gvl.Stalled, gvl.GC))
		case byWait:
			return cmp.Compare(part(y, gvl.Waiting), part(x, gvl.Waiting))
		case byIO:
			return cmp.Compare(part(y, gvl.IO), part(x, gvl.IO))
		case byCPU:
			return cmp.Compare(y.cpu, x.cpu)
		case byP99:
			return cmp.Compare(y.p99NS, x.p99NS)
		}
		switch {
		case x.active == y.active:
			return cmp.Compare(x.members[0], y.members[0])
		case x.active:
			return -1
		}
		return 1
	}
	slices.SortStableFunc(rows, func(x, y tableRow) int {
		c := compare(&x, &y)
		if p.reverse {
			c = -c
		}
		return c
	})
}

// urgency is the place of the most urgent state among a row's threads.
func (p *threadsPage) urgency(m *Model, w *tableRow) int {
	best := len(urgency)
	for _, k := range w.members {
		if t := &m.timeline.threads[k]; t.seen {
			best = min(best, slices.Index(urgency[:], t.state.State))
		}
	}
	return best
}
