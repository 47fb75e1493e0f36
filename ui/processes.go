package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// processesPage is view 8: a row a process, and under them the flamegraph, the functions or the findings of all of them or of
// the one selected.
type processesPage struct {
	fleet *fleet
	keys  keyMap

	sort     processSort
	reverse  bool
	selected *member // nil: all processes
	lower    lowerView
	onLower  bool // the arrow keys go to the lower view
	top      int  // first row drawn
	at       int  // selected line of the lower view's list
	listTop  int
	drawn    int

	rows      []processRow
	idle      []sampler.Relative // alive and not sampled
	forgotten int
	all       processRow
	loadedAt  time.Time
	loads     int // how often the rows were made
	of        flameRange
	merged    *merger
	hides     bool // directories were hidden when merged was begun
	mergedOf  mergedFrom
	flame     flameView
	functions []mergedRow
	sum       int64
	findings  []processFinding
}

// mergedFrom is what the lower view was made of.
type mergedFrom struct {
	loads    int
	selected *member
	hides    bool // directories were hidden
}

// lowerView is what stands under the table.
type lowerView uint8

const (
	lowerFlame lowerView = iota
	lowerTop
	lowerFindings
	numLower
)

var lowerNames = [numLower]string{"flamegraph", "functions", "findings"}

// processSort is a column of the table.
type processSort uint8

const (
	sortFound processSort = iota // each process followed by those below it
	sortTitle
	sortGVL
	sortWaiting
	sortP99
	sortCPU
	sortGC
	sortRSS
	sortFinding
	numProcessSorts
)

var processSortNames = [numProcessSorts]string{"order", "name", "GVL", "waiting", "waits p99", "CPU", "GC", "RSS", "worst finding"}

// processState is what became of a process.
type processState uint8

const (
	processRuns processState = iota
	processReplaced
	processExited
	processFailed
)

// processRow is a process with its head figures, or all of them.
type processRow struct {
	of      *member
	process sampler.Process
	parent  int
	threads int
	state   processState
	end     string // how and when it ended
	figures figures
	// findings are those of the moment shown, the worst first.
	findings []gvl.Finding
	// lane is the share of the time that the GVL was held, over the time shown: that of the ractor whose was held most.
	lane []float64
}

// processFinding is a finding and whose it is.
type processFinding struct {
	of *member
	gvl.Finding
}

// refreshProcesses is how often the rows are made again while the picture is live: by the clock, for the process that is
// shown may have ended.
const refreshProcesses = 500 * time.Millisecond

func newProcessesPage(f *fleet) *processesPage {
	p := &processesPage{fleet: f, merged: newMerger()}
	moved := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.move(m, n); return nil }
	}
	page := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.move(m, n*max(p.drawn-1, 1)); return nil }
	}
	beside := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd {
			if p.onLower && p.lower == lowerFlame {
				p.flame.selectBeside(n)
			}
			m.refresh()
			return nil
		}
	}
	p.keys = keyMap{title: "processes", bindings: []binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the process: all views show it then; in the flamegraph: zoom",
			do: func(m *Model) tea.Cmd { return p.enter(m) }},
		{keys: []string{"tab", "shift+tab"}, show: "tab", short: "below", help: "move between the table and what stands below it",
			do: func(m *Model) tea.Cmd { p.onLower = !p.onLower; m.refresh(); return nil }},
		{keys: []string{"v"}, show: "v", short: "view", help: "below the table: the flamegraph, the functions or the findings, of all processes or of the one selected",
			do: func(m *Model) tea.Cmd {
				p.lower = (p.lower + 1) % numLower
				p.at, p.listTop = 0, 0
				m.refresh()
				return nil
			}},
		{keys: []string{"up", "k"}, show: "↑ ↓", help: "select a process, a frame, a line (also k, j; page keys, home, end)", do: moved(-1)},
		{keys: []string{"down", "j"}, do: moved(+1)},
		{keys: []string{"pgup"}, do: page(-1)},
		{keys: []string{"pgdown"}, do: page(+1)},
		{keys: []string{"home", "g"}, do: moved(-maxRows)},
		{keys: []string{"end", "G", "shift+g"}, do: moved(maxRows)},
		{keys: []string{"left", "h"}, show: "← →", help: "select the frame beside it (also h, l)", when: func(*Model) bool { return p.onLower && p.lower == lowerFlame }, do: beside(-1)},
		{keys: []string{"right", "l"}, do: beside(+1)},
		{keys: []string{">", "."}, show: "< >", short: "sort", help: "sort by the next or previous column (also , .)",
			do: func(m *Model) tea.Cmd { p.sort = (p.sort + 1) % numProcessSorts; p.order(); m.refresh(); return nil }},
		{keys: []string{"<", ","}, do: func(m *Model) tea.Cmd {
			p.sort = (p.sort + numProcessSorts - 1) % numProcessSorts
			p.order()
			m.refresh()
			return nil
		}},
		{keys: []string{"r"}, show: "r", short: "reverse", help: "sort the other way round",
			do: func(m *Model) tea.Cmd { p.reverse = !p.reverse; p.order(); m.refresh(); return nil }},
		{keys: []string{"w"}, show: "w", short: "weight", help: "what is measured: wall time, CPU time, waiting for the GVL, blame",
			do: func(m *Model) tea.Cmd { p.nextMetric(); m.refresh(); return nil }},
		{keys: []string{"I", "shift+i"}, show: "I", help: "with or without the time of parked and sleeping threads",
			do: func(m *Model) tea.Cmd {
				p.flame.showIdle = !p.flame.showIdle
				p.mergedOf = mergedFrom{}
				m.refresh()
				return nil
			}},
		{keys: []string{"esc"}, show: "esc", short: "back", always: true, help: "leave the zoom, then what stands below the table, then the selection: all processes",
			when: func(*Model) bool { return len(p.flame.zoom) > 0 || p.onLower || p.selected != nil },
			do:   func(m *Model) tea.Cmd { p.back(m); return nil }},
	}}
	p.keys.bindings = append(p.keys.bindings, p.actions()...)
	return p
}

func (p *processesPage) keyMap() *keyMap { return &p.keys }

func (p *processesPage) about(m *scene) string {
	running, stopped := 0, 0
	for i := range p.rows {
		switch w := &p.rows[i]; {
		case w.stopped():
			stopped++
		case w.state == processRuns:
			running++
		}
	}
	var parts []string
	if running < len(p.rows) {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}
	if stopped > 0 {
		parts = append(parts, fmt.Sprintf("%d stopped", stopped))
	}
	if p.sort != sortFound || p.reverse {
		by := "by " + processSortNames[p.sort]
		if p.reverse {
			by += " reversed"
		}
		parts = append(parts, by)
	}
	return strings.Join(append(parts, m.when()), " · ")
}

// detail describes the selected frame, or the selected process.
func (p *processesPage) detail(m *scene) (name, rest string) {
	switch {
	case p.onLower && p.lower == lowerFlame:
		return p.flame.detail(p.merged.dict)
	case p.onLower && p.lower == lowerTop && p.at < len(p.functions):
		r := &p.functions[p.at]
		return r.label, fmt.Sprintf("%s  self %s  total %s", r.where(), units.Duration(r.self), units.Duration(r.total))
	case p.onLower && p.lower == lowerFindings && p.at < len(p.findings):
		f := &p.findings[p.at]
		return f.Title, f.Text + "  → " + f.Next
	}
	i := p.index()
	if i < 0 {
		return "all processes", "↑ ↓ select one   enter opens it   ( ) go from one to the next in every view"
	}
	r := &p.rows[i]
	parts := []string{fmt.Sprintf("child of %d", r.parent), r.process.RubyDescription}
	if r.parent == 0 {
		parts = parts[1:]
	}
	if r.figures.lockHz > 0 {
		parts = append(parts, fmt.Sprintf("read %s/%s of %s/%s", rate(r.figures.stackHz), rate(r.figures.lockHz), rate(r.process.StackRate), rate(r.process.LockRate)))
	}
	if r.end != "" {
		parts = append(parts, r.end)
	}
	return fmt.Sprintf("%s %d", m.titleOf(&r.process), r.process.PID), strings.Join(parts, "  ")
}

// index is the selected row, -1 for all processes.
func (p *processesPage) index() int {
	return slices.IndexFunc(p.rows, func(r processRow) bool { return r.of == p.selected && r.of != nil })
}

// move goes up or down in what has the keys.
func (p *processesPage) move(m *Model, n int) {
	switch {
	case !p.onLower:
		var of *member
		if i := max(-1, min(p.index()+n, len(p.rows)-1)); i >= 0 {
			of = p.rows[i].of
		}
		p.choose(m, of)
		return
	case p.lower == lowerFlame && n < 0:
		p.flame.selectParent()
	case p.lower == lowerFlame:
		p.flame.selectChild()
	default:
		count := len(p.functions)
		if p.lower == lowerFindings {
			count = len(p.findings)
		}
		p.at = max(0, min(p.at+n, count-1))
	}
	m.refresh()
}

// choose selects a process; nil: all.
func (p *processesPage) choose(m *Model, of *member) {
	p.selected, p.onLower = of, false
	p.flame.zoom, p.flame.selected, p.at, p.listTop = nil, nil, 0, 0
	m.refresh()
}

// sortBy sorts by a column, or the other way round where it is sorted by that.
func (p *processesPage) sortBy(m *Model, by processSort) {
	p.reverse = p.sort == by && !p.reverse
	p.sort = by
	p.order()
	m.refresh()
}

// enter opens the selected process on the live view, or that of the selected finding; in the flamegraph it zooms.
func (p *processesPage) enter(m *Model) tea.Cmd {
	to := p.selected
	switch {
	case p.onLower && p.lower == lowerFlame:
		p.flame.zoomIn()
		m.refresh()
		return nil
	case p.onLower && p.lower == lowerFindings && p.at < len(p.findings):
		to = p.findings[p.at].of
	case p.onLower:
		return nil
	}
	if to == nil {
		p.move(m, +1)
		return nil
	}
	m.page = pageLive
	return p.fleet.openAndRefresh(to)
}

func (p *processesPage) back(m *Model) {
	switch {
	case p.flame.zoomOut():
	case p.onLower:
		p.onLower = false
	default:
		p.selected = nil
	}
	m.refresh()
}

// nextMetric goes on to the next weight. The number of allocations can't be told over several processes: each is an
// estimate of its own.
func (p *processesPage) nextMetric() {
	p.flame.nextMetric()
	if p.flame.metric == flamegraph.Allocations {
		p.flame.nextMetric()
	}
	p.mergedOf = mergedFrom{}
}

// load reads all processes. r is the reading of the one that is shown: its Store is held.
func (p *processesPage) load(m *scene, r *reading) {
	list := p.fleet.list()
	of := flameRange{m.atNS, m.windowNS, m.frozen}
	now, hides := m.now(), m.store.dict.HidesDirectories()
	stale := len(list) != len(p.rows) || p.loads == 0 || of.frozen != p.of.frozen || of.windowNS != p.of.windowNS ||
		hides != p.mergedOf.hides || of.frozen && of.atNS != p.of.atNS || !of.frozen && now.Sub(p.loadedAt) >= refreshProcesses || now.Before(p.loadedAt)
	if stale {
		p.loadedAt, p.of = now, of
		p.loads++
		p.loadRows(m, r, list)
	}
	want := mergedFrom{p.loads, p.selected, hides}
	if want != p.mergedOf {
		p.mergedOf = want
		p.merge(m, r, list)
	}
}

// read gives access to a process's Store; that of the process shown is open already.
func read(m *scene, r *reading, of *member, fn func(*reading)) {
	if of.store == m.store {
		fn(r)
		return
	}
	of.store.Read(fn)
}

// merge makes the weights of all processes, or of the one selected, and what is drawn of them.
func (p *processesPage) merge(m *scene, r *reading, list []*member) {
	if hides := m.store.dict.HidesDirectories(); hides != p.hides || p.merged.full() {
		p.hides, p.merged, p.flame.builder = hides, newMerger(), nil
		p.flame.zoom, p.flame.selected = nil, nil
	}
	p.merged.begin(list)
	for _, of := range list {
		of.store.dict.HideDirectories(p.hides)
		if p.selected != nil && p.selected != of {
			continue
		}
		read(m, r, of, func(r *reading) {
			to := r.lastNS
			if m.frozen {
				to = m.atNS
			}
			if r.lastNS != 0 && (m.frozen || m.opt.Replay || !of.store.State().Done) {
				p.merged.add(of, r, to-m.windowNS, to)
			} else if r.lastNS != 0 && p.selected == of { // it has ended: its last moments
				p.merged.add(of, r, to-m.windowNS, to)
			}
		})
	}
	p.functions, p.sum = p.merged.functions(p.flame.metric, p.flame.showIdle)
}

// buildFlame makes the merged picture: the processes stand under the root.
func (p *processesPage) buildFlame(m *scene, width, height int) {
	v := &p.flame
	v.everything, v.filter = "all processes", ""
	if i := p.index(); i >= 0 {
		v.filter = fmt.Sprintf("%s %d", p.rows[i].process.Title, p.rows[i].process.PID)
	}
	v.build(&p.merged.whole, p.merged.dict, nil, func(id sampler.ThreadID) string {
		of := p.merged.owner[id]
		return fmt.Sprintf("%s %d", of.store.Process().Title, of.store.Process().PID)
	}, width)
	v.fit(height)
}
