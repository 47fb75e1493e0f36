package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// loadRows makes a row of each process, and the one of all.
func (p *processesPage) loadRows(sc *scene, r *store.Reading, list []*member) {
	relatives, forgotten := p.fleet.Relatives()
	p.forgotten = forgotten
	rows := make([]*processRow, 0, len(list))
	p.findings.rows = p.findings.rows[:0]
	for _, of := range list {
		row := &processRow{of: of, process: of.store.Process(), parent: of.parent}
		state := of.store.State()
		row.take(sc.showableState(state), sc.opt.Replay)
		read(sc, r, of, func(r *store.Reading) { row.load(sc, r) })
		for _, f := range row.findings {
			p.findings.rows = append(p.findings.rows, &processFinding{of, f})
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, asInTheTree)
	p.rows = rows
	p.idle = p.idle[:0]
	for i := range relatives {
		if x := relatives[i]; x.Source == nil && x.EndedAt.IsZero() && x.Why != "" {
			p.idle = append(p.idle, x)
		}
	}
	slices.SortStableFunc(p.findings.rows, func(x, y *processFinding) int { return worseFirst(&x.Finding, &y.Finding) })
	p.sumUp()
}

// titleOf is what the table calls a process.
func (sc *scene) titleOf(p *sampler.Process) string {
	if !sc.showsArgs() || len(p.CommandLine) == 0 {
		return p.Title
	}
	return canvas.Clean(strings.Join(p.CommandLine, " "))
}

// showsArgs reports whether command lines may be shown now.
func (sc *scene) showsArgs() bool { return sc.opt.Args && !sc.hidesNames() }

// take notes what became of the process.
func (w *processRow) take(s store.SourceState, replay bool) {
	switch {
	case s.Err != nil:
		w.state, w.end = processFailed, "✖ "+s.Err.Error()
	case s.Ended && !replay:
		w.state = processExited
		if strings.Contains(s.End.Reason, "exec") {
			w.state = processReplaced
		}
		h := headView{process: w.process, state: s}
		w.end = h.endText()
	}
}

// load reads the figures of the time shown; of a process that has ended, and of a recording, those of its last moments.
func (w *processRow) load(sc *scene, r *store.Reading) {
	to := r.LastNS
	if sc.frozen {
		to = sc.atNS
	}
	if r.LastNS == 0 {
		return
	}
	w.figures.load(r, to-sc.windowNS, to)
	w.threads = len(r.States)
	w.findings = r.Findings.Told()
	if sc.frozen {
		w.findings = nil
		if k := r.Marks.Before(to); k != nil {
			w.findings = slices.Clone(k.Findings)
		}
	} else if w.state != processRuns {
		w.threads = 0
	}
	if h := w.halted(); h != nil {
		w.findings = append(w.findings, h.finding)
	}
	// What explains most comes first; here it is the worst that counts.
	w.findings = sc.showableFindings(w.of.store, w.findings)
	slices.SortStableFunc(w.findings, func(x, y gvl.Finding) int { return worseFirst(&x, &y) })
	most := int64(-1)
	for _, id := range r.Timeline.Ractors() {
		cells := r.Timeline.Owners(id, to-sc.windowNS, to, laneColumns)
		var held int64
		for _, c := range cells {
			held += c.HeldNS
		}
		if held <= most {
			continue
		}
		most, w.lane = held, make([]float64, 0, len(cells))
		for _, c := range cells {
			w.lane = append(w.lane, valueOr(c.SampledNS == 0, style.Share(c.HeldNS, c.SampledNS)))
		}
	}
}

// halted is what holds the process, which is still there, from outside; nil: nothing does.
func (w *processRow) halted() *halt {
	if w.state != processRuns {
		return nil
	}
	return w.figures.halted
}

// laneColumns is the number of columns of a process's lane.
const laneColumns = 30

// sumUp makes the row of all processes: sums, and the longest waits.
func (p *processesPage) sumUp() {
	p.all = processRow{}
	for _, w := range p.rows {
		if w.state != processRuns {
			continue
		}
		a, f := &p.all.figures, &w.figures
		p.all.threads += w.threads
		a.held = max(a.held, f.held)
		a.waiting += f.waiting
		a.cpu += f.cpu
		a.rss += f.rss
		a.gc = max(a.gc, f.gc)
		a.gcKnown = a.gcKnown || f.gcKnown
		a.stackHz += f.stackHz
		a.lockHz += f.lockHz
		a.minor += f.minor
		a.major += f.major
		a.selfCPU, a.selfKnown = max(a.selfCPU, f.selfCPU), a.selfKnown || f.selfKnown // ddtop's own, the same for all
		a.halved = a.halved || f.halved
		a.waits += f.waits
		if f.waitTold[store.WaitP99].NS > a.waitTold[store.WaitP99].NS {
			a.waitTold[store.WaitP99] = f.waitTold[store.WaitP99]
		}
	}
}

// inTree is the name of the order in which each process is followed by those below it.
const inTree = "order"

func asInTheTree(x, y *processRow) int { return slices.Compare(x.of.path, y.of.path) }

// order makes the rows of the table: all processes, each of them, and those that are not sampled.
func (p *processesPage) order() {
	t := &p.table
	t.rows = append(append(t.rows[:0], &p.all), p.rows...)
	t.sort(t.rows[1:])
	for i := range p.idle {
		t.rows = append(t.rows, &processRow{idle: &p.idle[i]})
	}
	if t.index() < 0 { // it is sampled now, or no more, or was forgotten
		*t.cursor = p.sameProcess(*t.cursor)
	}
}

// sameProcess is the key of the row that a process has now whose row is gone: one that was not sampled may be, and the other way
// round. Without a row it is that of all.
func (p *processesPage) sameProcess(k processKey) processKey {
	pid := k.idle
	if k.of != nil {
		pid = k.of.store.Process().PID
	}
	for _, w := range p.table.rows {
		if w.idle != nil && w.idle.PID == pid || w.of != nil && w.process.PID == pid {
			return w.id()
		}
	}
	return processKey{}
}

// worseFirst orders findings of several processes: what goes on before what has ended, then by severity.
func worseFirst(x, y *gvl.Finding) int {
	return cmp.Or(cmp.Compare(min(x.AgoNS, 1), min(y.AgoNS, 1)), cmp.Compare(y.Severity, x.Severity))
}

// worst is the severity of the process's worst finding that goes on; -1 without any.
func (w *processRow) worst() int {
	if len(w.findings) == 0 || w.findings[0].AgoNS != 0 {
		return -1
	}
	return int(w.findings[0].Severity)
}
