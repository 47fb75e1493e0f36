package processes

import (
	"testing"

	"github.com/ddtop/ddtop/ui/scene"
)

// TestAllProcessesAddUp: in the row for all processes, the backlog is the sum of the backlogs of all processes. ddtop
// may exceed its CPU limit for one process, because the figures would otherwise be too inexact. The row for all
// processes must say so, too. Ended processes are left out.
func TestAllProcessesAddUp(t *testing.T) {
	row := func(state processState, f scene.Figures) *processRow { return &processRow{state: state, figures: f} }
	p := &Page{rows: []*processRow{
		row(processRuns, scene.Figures{}),
		row(processRuns, scene.Figures{Backlog: 3, BacklogKnown: true}),
		row(processRuns, scene.Figures{Backlog: 4, BacklogKnown: true, Extended: true}),
		row(processExited, scene.Figures{Backlog: 5, BacklogKnown: true}),
	}}
	p.sumUp()
	if f := &p.all.figures; !f.BacklogKnown || f.Backlog != 7 || !f.Extended {
		t.Errorf("all: backlog %d (known: %v), extended %v", f.Backlog, f.BacklogKnown, f.Extended)
	}
	p.rows = p.rows[:1]
	if p.sumUp(); p.all.figures.BacklogKnown {
		t.Error("the backlog of all is known, and no process has a known one")
	}
}
