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
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// processesPage is view 8: a row a process, and under them the flamegraph, the functions or the findings of all of them or of
// the one selected.
type processesPage struct {
	plainPage
	fleet processList

	table   table[*processRow, processKey]
	lower   lowerView
	onLower bool // the arrow keys go to the lower view

	rows      []*processRow      // without that of all, and those that are not sampled
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
	functions table[*mergedRow, topKey]
	sum       int64
	findings  list[*processFinding, findingKey]
}

// mergedFrom is what the lower view was made of.
type mergedFrom struct {
	loads    int
	selected *member
	hides    bool // directories were hidden
	own      bool // what is not the programs' own counts for what called it
}

// lowerView is what is under the table.
type lowerView uint8

const (
	lowerFlame lowerView = iota
	lowerTop
	lowerFindings
	numLower
)

var lowerNames = [numLower]string{"flamegraph", "functions", "findings"}

// processState is what became of a process.
type processState uint8

const (
	processRuns processState = iota
	processReplaced
	processExited
	processFailed
)

// processRow is a process with its head figures, or all of them, or one that is not sampled.
type processRow struct {
	of      *member           // nil: all, or not sampled
	idle    *sampler.Relative // not sampled
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

// processKey names a row. Its zero value is that of all processes.
type processKey struct {
	of   *member
	idle int // its PID
}

func (w *processRow) id() processKey {
	if w.idle != nil {
		return processKey{idle: w.idle.PID}
	}
	return processKey{of: w.of}
}

// processFinding is a finding and whose it is.
type processFinding struct {
	of *member
	gvl.Finding
}

type findingKey struct {
	of    *member
	title string
}

func (f *processFinding) id() findingKey { return findingKey{f.of, f.Title} }

// refreshProcesses is how often the rows are made again while the picture is live: by the clock, for the process that is
// shown may have ended.
const refreshProcesses = 500 * time.Millisecond

// processList is what the page lists.
type processList interface {
	List() []*member
	Relatives() (list []sampler.Relative, forgotten int)
}

func newProcessesPage(f processList) *processesPage {
	p := &processesPage{fleet: f, merged: newMerger()}
	p.table = table[*processRow, processKey]{list: list[*processRow, processKey]{cursor: new(processKey)}, columns: p.columns(),
		left: 1, right: 1, natural: asInTheTree, unsorted: inTree, by: inTree}
	p.findings.cursor = new(findingKey)
	p.functions = table[*mergedRow, topKey]{list: list[*mergedRow, topKey]{cursor: new(topKey)},
		columns: p.functionColumns(), left: 1, right: 1, by: string(bySelf)}
	beside := func(n int) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd {
			if p.onLower && p.lower == lowerFlame {
				p.flame.selectBeside(n)
			}
			h.Refresh()
			return nil
		}
	}
	p.keyMap = keyMap{title: "processes", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the process: all views show it then; in the flamegraph: zoom; a finding: go to what it is about",
			do: func(h Host) tea.Cmd { return p.enter(h) }},
		{keys: []string{"tab", "shift+tab"}, show: "tab", short: "below", help: "move between the table and what stands below it",
			do: func(h Host) tea.Cmd { p.onLower = !p.onLower; h.Refresh(); return nil }},
		{keys: []string{"v"}, show: "v", short: "view", help: "below the table: the flamegraph, the functions or the findings, of all processes or of the one selected",
			do: func(h Host) tea.Cmd {
				p.lower = (p.lower + 1) % numLower
				p.functions.reset()
				p.findings.reset()
				h.Refresh()
				return nil
			}},
	}, cursorKeys("", "select a process, a frame, a line", p.move), []binding{
		{keys: []string{"left", "h"}, show: "← →", help: "select the frame beside it (also h, l)", when: func(Host) bool { return p.onLower && p.lower == lowerFlame }, do: beside(-1)},
		{keys: []string{"right", "l"}, do: beside(+1)},
	}, sortKeys("sort by the next or previous column", func() sorter {
		if p.onLower && p.lower == lowerTop {
			return &p.functions
		}
		return &p.table
	}), []binding{
		{keys: []string{"w"}, show: "w", short: "weight", help: "what is measured: wall time, CPU time, waiting for the GVL, blame",
			do: func(h Host) tea.Cmd { p.nextMetric(); h.Refresh(); return nil }},
		{keys: []string{"I", "shift+i"}, show: "I", help: "with or without the time of parked and sleeping threads",
			do: func(h Host) tea.Cmd {
				p.flame.showIdle = !p.flame.showIdle
				p.mergedOf = mergedFrom{}
				h.Refresh()
				return nil
			}},
		{keys: []string{"c"}, show: "c", help: "own code, with the frames of libraries in rows; long runs of frames as rows; every frame",
			do: func(h Host) tea.Cmd { p.flame.nextFolding(); h.Refresh(); return nil }},
		{keys: []string{"esc"}, show: "esc", short: "back", always: true, help: "leave the zoom, then what stands below the table, then the selection: all processes",
			when: func(Host) bool { return len(p.flame.zoom) > 0 || p.onLower || *p.table.cursor != (processKey{}) },
			do:   func(h Host) tea.Cmd { p.back(h); return nil }},
	}, p.actions())}
	return p
}

func (p *processesPage) about(sc *scene) string {
	running := 0
	halted := make(map[string]int)
	for _, w := range p.rows {
		switch {
		case w.halted() != nil:
			halted[w.halted().word]++
		case w.state == processRuns:
			running++
		}
	}
	var parts []string
	if running < len(p.rows) {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}
	for _, h := range []*halt{&processStopped, &processFrozen} {
		if n := halted[h.word]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h.word))
		}
	}
	if p.table.by != inTree || p.table.reverse {
		by := "by " + p.table.by
		if p.table.reverse {
			by += " reversed"
		}
		parts = append(parts, by)
	}
	return strings.Join(append(parts, sc.when()), " · ")
}

// detail describes the selected frame, line or process.
func (p *processesPage) detail(sc *scene) (name, rest string) {
	switch i, k := p.functions.index(), p.findings.index(); {
	case p.onLower && p.lower == lowerFlame:
		return p.flame.detail(p.merged.dict)
	case p.onLower && p.lower == lowerTop && i >= 0:
		r := p.functions.rows[i]
		return r.label, fmt.Sprintf("%s  self %s  total %s", r.where(), units.Duration(r.self), units.Duration(r.total))
	case p.onLower && p.lower == lowerFindings && k >= 0:
		f := p.findings.rows[k]
		return f.Title, f.Text + "  → " + f.Next
	}
	r := &p.all
	if i := p.table.index(); i >= 0 {
		r = p.table.rows[i]
	}
	switch {
	case r.idle != nil:
		return fmt.Sprintf("%s %d", sc.showable(r.idle.Title), r.idle.PID), "not sampled: " + sc.showable(r.idle.Why)
	case r.of == nil:
		return "all processes", "↑ ↓ select one   enter opens it   ( ) go from one to the next in every view"
	}
	parts := []string{fmt.Sprintf("child of %d", r.parent), r.process.RubyDescription}
	if r.parent == 0 {
		parts = parts[1:]
	}
	if r.figures.lockHz > 0 {
		parts = append(parts, fmt.Sprintf("read %s/%s of %s/%s", style.Rate(r.figures.stackHz), style.Rate(r.figures.lockHz), style.Rate(r.process.StackRate), style.Rate(r.process.LockRate)))
	}
	if r.end != "" {
		parts = append(parts, r.end)
	}
	return fmt.Sprintf("%s %d", sc.titleOf(&r.process), r.process.PID), strings.Join(parts, "  ")
}

// move goes up or down in what has the keys.
func (p *processesPage) move(h Host, by step) tea.Cmd {
	switch {
	case !p.onLower:
		p.table.move(by)
		return p.choose(h)
	case p.lower == lowerFlame && by.rows+by.screens < 0:
		p.flame.selectParent()
	case p.lower == lowerFlame:
		p.flame.selectChild()
	case p.lower == lowerTop:
		p.functions.move(by)
	default:
		p.findings.move(by)
	}
	h.Refresh()
	return nil
}

// choose shows the process that was selected in the table below it.
func (p *processesPage) choose(h Host) tea.Cmd {
	p.onLower, p.flame.zoom, p.flame.selected = false, nil, nil
	p.functions.reset()
	p.findings.reset()
	h.Refresh()
	return nil
}

// enter opens the selected process on the live view, or what the selected finding is about; in the flamegraph it zooms.
func (p *processesPage) enter(h Host) tea.Cmd {
	to, k := p.table.cursor.of, p.findings.index()
	switch {
	case p.onLower && p.lower == lowerFlame:
		p.flame.zoomIn()
		h.Refresh()
		return nil
	case p.onLower && p.lower == lowerFindings && k >= 0:
		f := p.findings.rows[k]
		return h.GoToFinding(findingID{f.of, f.ID})
	case p.onLower:
		return nil
	case p.table.cursor.idle != 0:
		h.Message().fail("it is not sampled, so there is nothing to show")
		return nil
	}
	if to == nil {
		return p.move(h, step{rows: +1})
	}
	return h.OpenProcess(to)
}

func (p *processesPage) back(h Host) {
	switch {
	case p.flame.zoomOut():
	case p.onLower:
		p.onLower = false
	default:
		*p.table.cursor = processKey{}
	}
	h.Refresh()
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
func (p *processesPage) load(sc *scene, r *store.Reading) {
	list := p.fleet.List()
	of := flameRange{sc.atNS, sc.windowNS, sc.frozen}
	now, hides := sc.now(), sc.dict.HidesDirectories()
	stale := len(list) != len(p.rows) || p.loads == 0 || of.frozen != p.of.frozen || of.windowNS != p.of.windowNS ||
		hides != p.mergedOf.hides || of.frozen && of.atNS != p.of.atNS || !of.frozen && now.Sub(p.loadedAt) >= refreshProcesses || now.Before(p.loadedAt)
	if stale {
		p.loadedAt, p.of = now, of
		p.loads++
		p.loadRows(sc, r, list)
	}
	p.order()
	want := mergedFrom{p.loads, p.table.cursor.of, hides, p.flame.folding == foldLibraries}
	if want != p.mergedOf {
		p.mergedOf = want
		p.merge(sc, r, list)
	}
	p.functions.sort(p.functions.rows)
	if p.onLower {
		p.functions.settle()
		p.findings.settle()
	}
}

// read gives access to a process's Store; that of the process shown is open already.
func read(sc *scene, r *store.Reading, of *member, fn func(*store.Reading)) {
	if of.store.Dict == sc.dict {
		fn(r)
		return
	}
	of.store.Read(fn)
}

// merge makes the weights of all processes, or of the one selected, and what is drawn of them.
func (p *processesPage) merge(sc *scene, r *store.Reading, list []*member) {
	if hides := sc.dict.HidesDirectories(); hides != p.hides || p.merged.full() {
		p.hides, p.merged, p.flame.builder = hides, newMerger(), nil
		p.flame.zoom, p.flame.selected = nil, nil
	}
	selected := p.table.cursor.of
	p.merged.begin(list)
	for _, of := range list {
		of.store.Dict.HideDirectories(p.hides)
		if selected != nil && selected != of {
			continue
		}
		read(sc, r, of, func(r *store.Reading) {
			to := r.LastNS
			if sc.frozen {
				to = sc.atNS
			}
			if r.LastNS != 0 && (sc.frozen || sc.opt.Replay || !of.store.State().Done) {
				p.merged.add(of, r, to-sc.windowNS, to)
			} else if r.LastNS != 0 && selected == of { // it has ended: its last moments
				p.merged.add(of, r, to-sc.windowNS, to)
			}
		})
	}
	var rows []mergedRow
	rows, p.sum = p.merged.functions(p.flame.metric, p.flame.showIdle, p.flame.folding == foldLibraries)
	p.functions.rows = p.functions.rows[:0]
	for i := range rows {
		p.functions.rows = append(p.functions.rows, &rows[i])
	}
}

// buildFlame makes the merged picture: the processes stand under the root.
func (p *processesPage) buildFlame(sc *scene, width, height int) {
	v := &p.flame
	v.everything, v.filter = "all processes", ""
	if of := p.table.cursor.of; of != nil {
		process := of.store.Process()
		v.filter = fmt.Sprintf("%s %d", process.Title, process.PID)
	}
	v.build(&p.merged.whole, p.merged.dict, nil, func(id sampler.ThreadID) string {
		of := p.merged.owner[id]
		return fmt.Sprintf("%s %d", of.store.Process().Title, of.store.Process().PID)
	}, width, height)
	v.fit(height)
}
