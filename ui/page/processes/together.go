package processes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// planTogether compares the findings of all processes, and changes their advice where one advice contradicts another.
func planTogether(rows []*processRow) {
	all := make([]findings.Told, 0, len(rows))
	for _, w := range rows {
		all = append(all, findings.Told{Program: w.Process.Title, List: w.findings})
	}
	findings.PlanTogether(all...)
}

// together caches the findings of all processes, for views that show only one process.
type together struct {
	rows []*processRow
	at   time.Time
	of   scene.FlameRange
}

// Together adjusts the advice in the shown process's findings to the findings of all processes. If the shown process
// has no active finding, it adds a note on what is wrong with other processes. The Store of the shown process is
// already locked, so Together uses r to read it.
func (p *Page) Together(sc *scene.Scene, r *store.Reading, v *scene.Findings) {
	t, now := &p.together, sc.Now()
	of := scene.FlameRange{AtNS: sc.AtNS, Frozen: sc.Frozen}
	if !sc.Frozen {
		of.AtNS = 0
	}
	if of != t.of || now.Sub(t.at) >= RefreshProcesses || now.Before(t.at) {
		t.of, t.at, t.rows = of, now, t.rows[:0]
		for _, m := range p.fleet.List() {
			w := &processRow{Of: m, Process: m.Store.Process()}
			w.setState(m.Store.State(), sc.Opt.Replay)
			read(sc, r, m, func(r *store.Reading) { w.loadTold(sc, r) })
			t.rows = append(t.rows, w)
		}
	}
	var others []*processRow
	for _, w := range t.rows {
		if w.Of.Store.Dict == sc.Dict {
			w.findings = slices.Clone(v.List) // a copy, because planTogether changes it
			v.List = w.findings
		} else if w.worst() >= 0 {
			others = append(others, w)
		}
	}
	planTogether(t.rows)
	v.Others = ofOthers(sc, others)
}

// loadTold reads the findings for the time on the screen. Unlike load, it does not read the figures.
func (w *processRow) loadTold(sc *scene.Scene, r *store.Reading) {
	to, ok := shownAt(sc, r)
	if !ok {
		return
	}
	if k := r.Marks.LastBefore(to); k != nil {
		w.figures.Halted = scene.HaltOf(&k.Proc)
	}
	w.loadFindings(sc, r, to)
}

// ofOthers returns a text about the worst active finding of other processes: "puma w0: GVL saturated, +2 more". It is
// empty if they have none.
func ofOthers(sc *scene.Scene, list []*processRow) string {
	var worst *processRow
	n := 0
	for _, w := range list {
		n += len(active(w.findings))
		if worst == nil || severest(w.findings).Severity > severest(worst.findings).Severity {
			worst = w
		}
	}
	if worst == nil {
		return ""
	}
	text := fmt.Sprintf("%s: %s", titleOf(sc, &worst.Process), severest(worst.findings).Title)
	if n > 1 {
		text += fmt.Sprintf(", +%d more", n-1)
	}
	return text
}

// active returns the active findings of a list, in which the active ones come first.
func active(list []findings.Finding) []findings.Finding {
	if n := slices.IndexFunc(list, func(f findings.Finding) bool { return f.AgoNS != 0 }); n >= 0 {
		return list[:n]
	}
	return list
}

// severest returns the most severe finding. If several are equally severe, it returns the first of them.
func severest(list []findings.Finding) *findings.Finding {
	out := &list[0]
	for i := range list {
		if worseFirst(&list[i], out) < 0 {
			out = &list[i]
		}
	}
	return out
}

// Leads returns the process to show when the user goes from this view to another view. It is the selected process. If
// the user has neither selected nor opened a process, it is the process with the worst finding. Without findings it is
// the process with the most CPU time. If the result is nil, the screen keeps the process that it shows now.
func (p *Page) Leads(opened bool) *scene.Member {
	if to := p.Table.Cursor.Of; to != nil || opened || len(p.rows) == 0 {
		return to
	}
	worse := func(x, y *processRow) int {
		return cmp.Or(cmp.Compare(y.worst(), x.worst()), cmp.Compare(y.figures.CPU, x.figures.CPU))
	}
	rows := slices.DeleteFunc(slices.Clone(p.rows), func(w *processRow) bool { return w.state != processRuns })
	if len(rows) == 0 {
		return nil
	}
	return slices.MinFunc(rows, worse).Of
}

// Follow moves the table's cursor to the process that is shown. If the cursor is on the row for all processes, Follow
// leaves it there.
func (p *Page) Follow(shown *scene.Member) {
	if *p.Table.Cursor != (processKey{}) {
		*p.Table.Cursor = processKey{Of: shown}
	}
}
