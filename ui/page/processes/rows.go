package processes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// loadRows makes a row for each process, and a row for all processes together.
func (p *Page) loadRows(sc *scene.Scene, r *store.Reading, list []*scene.Member) {
	relatives, forgotten := p.fleet.Relatives()
	p.forgotten = forgotten
	rows := make([]*processRow, 0, len(list))
	p.findings.Rows = p.findings.Rows[:0]
	for _, of := range list {
		row := &processRow{Of: of, Process: of.Store.Process(), parent: of.Parent}
		state := of.Store.State()
		row.setState(sc.ShowableState(state), sc.Opt.Replay)
		read(sc, r, of, func(r *store.Reading) { row.load(sc, r) })
		rows = append(rows, row)
	}
	planTogether(rows)
	for _, row := range rows {
		// row.findings begins with the findings that have the best explanations. In the table the worst finding must
		// come first.
		sorting.StableBy(row.findings, func(x, y findings.Finding) int { return worseFirst(&x, &y) })
		for _, f := range row.findings {
			p.findings.Rows = append(p.findings.Rows, &processFinding{row.Of, f})
		}
	}
	slices.SortFunc(rows, asInTheTree)
	p.rows = rows
	p.idle = p.idle[:0]
	for i := range relatives {
		if x := relatives[i]; x.Source == nil && x.EndedAt.IsZero() && x.Why != "" {
			p.idle = append(p.idle, x)
		}
	}
	slices.SortStableFunc(p.findings.Rows, func(x, y *processFinding) int { return worseFirst(&x.Finding, &y.Finding) })
	p.sumUp()
	p.sumUpFindings()
}

// titleOf returns the text for a process in the table: its name, or its command line if this may be shown.
func titleOf(sc *scene.Scene, p *sampler.Process) string {
	if !showsArgs(sc) || len(p.CommandLine) == 0 {
		return p.Name()
	}
	return canvas.Clean(strings.Join(p.CommandLine, " "))
}

// showsArgs reports whether command lines may be shown now.
func showsArgs(sc *scene.Scene) bool { return sc.Opt.Args && !sc.HidesNames() }

// setState sets the row's state of the process, and the text about how the process ended. Both come from the state of
// the process's Source.
func (w *processRow) setState(s store.SourceState, replay bool) {
	switch {
	case s.Err != nil:
		w.state, w.end = processFailed, "✖ "+s.Err.Error()
	case s.Ended && !replay:
		w.state = processExited
		if strings.Contains(s.End.Reason, "exec") {
			w.state = processReplaced
		}
		h := widget.Head{Process: w.Process, State: s}
		w.end = h.EndText()
	}
}

// shownAt returns the moment at which the time shown for a process ends. ok is false if the process has no sample yet.
func shownAt(sc *scene.Scene, r *store.Reading) (atNS int64, ok bool) {
	if sc.Frozen {
		return sc.AtNS, r.LastNS != 0
	}
	return r.LastNS, r.LastNS != 0
}

// load reads the row's figures for the time on the screen. For a process that has ended, or that is read from a
// recording, this time ends with its last sample.
func (w *processRow) load(sc *scene.Scene, r *store.Reading) {
	to, ok := shownAt(sc, r)
	if !ok {
		return
	}
	w.figures.Load(r, to-sc.WindowNS, to)
	if w.threads = len(r.States); !sc.Frozen && w.state != processRuns {
		w.threads = 0
	}
	w.loadFindings(sc, r, to)
	_, w.lane = scene.Busiest(r, to-sc.WindowNS, to, laneColumns)
}

// loadFindings reads the process's findings for the time on the screen. They are in the order of package findings.
func (w *processRow) loadFindings(sc *scene.Scene, r *store.Reading, to int64) {
	switch end := cmp.Or(w.Of.Store.State().End.AtNS, r.LastNS); {
	case w.state == processRuns:
		w.findings = r.Findings.Told()
	default:
		w.findings = r.Findings.ToldOfEnded(end, end+max(int64(sc.Now().Sub(w.Process.WallTime(end))), 0))
	}
	if sc.Frozen {
		w.findings = nil
		if k := r.Marks.LastBefore(to); k != nil {
			w.findings = slices.Clone(k.Findings)
		}
	}
	if h := w.halted(); h != nil {
		w.findings = append(w.findings, h.Finding)
	}
	w.findings = sc.ShowableFindings(w.Of.Store, w.findings)
}

// halted returns what has stopped a process that has not ended, such as SIGSTOP or docker pause. It returns nil if
// nothing has stopped it.
func (w *processRow) halted() *scene.Halt {
	if w.state != processRuns {
		return nil
	}
	return w.figures.Halted
}

// laneColumns is the width of a process's lane (the small curve that shows how much of the time its GVL was held).
const laneColumns = 30

// sumUp makes the row for all processes together. Its figures are sums, except for waits: it has the longest wait of
// all processes.
func (p *Page) sumUp() {
	p.all = processRow{}
	for _, w := range p.rows {
		if w.state != processRuns {
			continue
		}
		a, f := &p.all.figures, &w.figures
		p.all.threads += w.threads
		a.Held = max(a.Held, f.Held)
		a.Waiting += f.Waiting
		a.CPU += f.CPU
		a.RSS += f.RSS
		a.GC = max(a.GC, f.GC)
		a.GCKnown = a.GCKnown || f.GCKnown
		a.StackHz += f.StackHz
		a.LockHz += f.LockHz
		a.Minor += f.Minor
		a.Major += f.Major
		// ddtop's own CPU time is the same in each row
		a.SelfCPU, a.SelfKnown = max(a.SelfCPU, f.SelfCPU), a.SelfKnown || f.SelfKnown
		a.Halved, a.Extended = a.Halved || f.Halved, a.Extended || f.Extended
		a.Backlog += f.Backlog
		a.BacklogKnown = a.BacklogKnown || f.BacklogKnown
		a.Waits += f.Waits
		if f.WaitLengths[store.WaitP99].NS > a.WaitLengths[store.WaitP99].NS {
			a.WaitLengths[store.WaitP99] = f.WaitLengths[store.WaitP99]
		}
	}
}

// sumUpFindings finds the most severe finding of all processes. If several are equally severe, it chooses the one that
// most processes of the same program have. `ddtop stat` chooses in the same way.
func (p *Page) sumUpFindings() {
	type key struct{ program, id string }
	has, of := make(map[key]int), make(map[string]int)
	for _, w := range p.rows {
		of[w.Process.Title]++
		seen := make(map[string]bool)
		for _, f := range w.findings {
			if !seen[f.ID] {
				seen[f.ID] = true
				has[key{w.Process.Title, f.ID}]++
			}
		}
	}
	p.worst = nil
	count := func(x *processFinding) int { return has[key{x.of.Store.Process().Title, x.Finding.ID}] }
	var worst *processFinding
	for _, x := range p.findings.Rows {
		if worst == nil || cmp.Or(worseFirst(&x.Finding, &worst.Finding), count(worst)-count(x)) < 0 {
			worst = x
		}
	}
	if worst != nil {
		p.worst = &worst.Finding
		n, all := count(worst), of[worst.of.Store.Process().Title]
		p.worstIn, p.worstShort = fmt.Sprintf(" in %d of %d", n, all), fmt.Sprintf(" %d/%d", n, all)
		if len(has) > 1 {
			p.worstIn += fmt.Sprintf(" +%d", len(has)-1)
		}
	}
}

// inTree is the name of a sort order of the table. In this order, each process is followed by its descendants.
const inTree = "order"

func asInTheTree(x, y *processRow) int { return slices.Compare(x.Of.Path, y.Of.Path) }

// order makes the rows of the table, and sorts them. The first row is about all processes together. After it come the
// sampled processes, one row for each. The processes that are not sampled come last.
func (p *Page) order() {
	t := &p.Table
	t.Rows = append(append(t.Rows[:0], &p.all), p.rows...)
	t.Sort(t.Rows[1:])
	for i := range p.idle {
		t.Rows = append(t.Rows, &processRow{idle: &p.idle[i]})
	}
	if t.Index() < 0 { // the process was forgotten, or sampling of the process has begun or ended
		*t.Cursor = p.sameProcess(*t.Cursor)
	}
}

// sameProcess keeps the cursor on its process when sampling of the process begins or ends. The key of the process then
// changes. k is the old key, and the result is the present one. If the process has no row now, the result is the key of
// the row for all processes.
func (p *Page) sameProcess(k processKey) processKey {
	pid := k.idle
	if k.Of != nil {
		pid = k.Of.Store.Process().PID
	}
	for _, w := range p.Table.Rows {
		if w.idle != nil && w.idle.PID == pid || w.Of != nil && w.Process.PID == pid {
			return w.ID()
		}
	}
	return processKey{}
}

// worseFirst compares findings of several processes, for sorting. Active findings come before ended ones. Among the
// active ones, and among the ended ones, the more severe come first.
func worseFirst(x, y *findings.Finding) int {
	return cmp.Or(cmp.Compare(min(x.AgoNS, 1), min(y.AgoNS, 1)), cmp.Compare(y.Severity, x.Severity))
}

// worst returns how severe the worst active finding of the process is. It is -1 if there is no active finding.
func (w *processRow) worst() int {
	if len(w.findings) == 0 || w.findings[0].AgoNS != 0 {
		return -1
	}
	return int(w.findings[0].Severity)
}
