package ui

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/thread"
	"github.com/ddtop/ddtop/ui/page/threads"
	"github.com/ddtop/ddtop/ui/scene"
)

func TestThreadsTableSorts(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2")
	s.sees("2 threads", "15 threads", "http ×8", "worker-3", "p99", "current frame", "Thread#join")
	p := s.model.pages[scene.PageThreads].(*threads.Page)
	s.press("t") // ungroups the threads
	if len(p.Table.Rows) != 15 {
		t.Fatalf("%d rows for 15 threads", len(p.Table.Rows))
	}
	for p.Table.By != "CPU" {
		s.press(">")
	}
	s.sees("by CPU")
	for i := 1; i < len(p.Table.Rows); i++ {
		if p.Table.Rows[i].CPU > p.Table.Rows[i-1].CPU {
			t.Errorf("%s uses more CPU than %s above it", p.Table.Rows[i].Name, p.Table.Rows[i-1].Name)
		}
	}
	if p.Table.Rows[0].Name != "worker-3" || p.Table.Rows[0].CPU < 0.5 {
		t.Errorf("worker-3 hogs the GVL, and the first row is %s with %v", p.Table.Rows[0].Name, p.Table.Rows[0].CPU)
	}
	s.press("r")
	if got := p.Table.Rows[len(p.Table.Rows)-1].Name; got != "worker-3" {
		t.Errorf("reversed, the last row is %s", got)
	}
	s.press(">", "r")
	if l := s.line("http-1 "); !strings.Contains(l, "≥") && !strings.Contains(l, "ms") {
		t.Errorf("http-1 waits, and its p99 is missing: %s", l)
	}
}

func TestThreadsTableOpensAThread(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2", "down")
	s.press("left") // closes the group
	s.misses("http-3 ")
	s.press("right", "down", "enter")
	if s.model.Page != scene.PageThread {
		t.Fatal("enter opens the thread")
	}
	s.sees("http-1", "tid 4243", "ractor 1", "stack now", "state", "waits", "holds", "longest waits for the GVL")
	s.press("right")
	s.sees("tid 4244")
	s.press("esc")
	s.sees("current frame")
	s.press("1")
	s.sees("wall time")
	if got := s.model.Selected.Thread; got != 3 {
		t.Errorf("the live view has another thread selected: %d", got)
	}
}

// TestPagesFollowTime: when the user moves to another moment, the table of threads must show the same moment as the
// other views.
func TestPagesFollowTime(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2")
	now := s.text()
	for range 25 {
		s.press("[")
	}
	s.sees("FROZEN", "until 14:0")
	if s.text() == now {
		t.Error("the table is the same 25 s ago")
	}
	_, states, err := s.store.Moment(s.model.AtNS)
	if err != nil {
		t.Fatal(err)
	}
	s.press("t")
	p := s.model.pages[scene.PageThreads].(*threads.Page)
	for i := range p.Table.Rows {
		th := &s.model.Threads[p.Table.Rows[i].Members[0]]
		for _, st := range states {
			if st.Thread == th.ID && st.State != th.State.State {
				t.Errorf("%s: %s, the history says %s", th.Name, th.State.State, st.State)
			}
		}
	}
	s.press("space")
	s.misses("FROZEN")
}

// TestThreadHeat: a thread's page shows each source line with its share of the time. This must be the same share that
// the line has in the flamegraph's weights.
func TestThreadHeat(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2", "t")
	for s.model.Selected.Thread != 12 { // worker-3
		s.press("down")
	}
	s.press("enter")
	p := s.model.pages[scene.PageThread].(*thread.Page)
	var total, build int64
	for _, e := range s.model.Weights.Entries {
		if e.Key.Thread != 12 {
			continue
		}
		total += e.Weights.WallNS
		for _, id := range s.store.Dict.Frames(e.Key.Stack, nil) {
			if f := s.store.Dict.Frame(id); f.Label == "Reports#build" {
				build += e.Weights.WallNS
				break
			}
		}
	}
	if p.Heat.Total != total || p.Heat.Lines[thread.CodeLine{File: "/srv/app/app/reports.rb", Line: 41}] != build || build == 0 {
		t.Errorf("line 41 has %d of %d, the weights say %d of %d", p.Heat.Lines[thread.CodeLine{File: "/srv/app/app/reports.rb", Line: 41}], p.Heat.Total, build, total)
	}
}

func TestSourceIsShownWithItsLine(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2", "t")
	for s.model.Selected.Thread != 12 {
		s.press("down")
	}
	cmds := s.press("enter")
	if len(cmds) != 1 {
		t.Fatalf("%d commands to read the source", len(cmds))
	}
	s.sees("reading …")
	p := s.model.pages[scene.PageThread].(*thread.Page)
	f := p.Frame()
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = "# nothing"
	}
	lines[f.Line-1] = "\x1b[31mreport.each { |r| r.total }"
	s.model.Update(thread.SourceMsg{Path: f.AbsolutePath, File: &thread.SourceFile{Lines: lines}})
	l := s.line("report.each")
	if !strings.Contains(l, "▸") || strings.Contains(l, "\x1b") {
		t.Errorf("the current line is not marked, or not clean: %q", l)
	}
	s.model.Update(thread.SourceMsg{Path: f.AbsolutePath, File: &thread.SourceFile{Lines: lines, Newer: true}})
	s.sees("changed after the program started")
	s.model.Update(thread.SourceMsg{Path: f.AbsolutePath, File: &thread.SourceFile{Err: os.ErrPermission}})
	s.sees("permission denied")
}

// TestSourceIsNotReadWhilePresenting: during a presentation, which hides directories, ddtop does not read source files.
func TestSourceIsNotReadWhilePresenting(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, scene.Options{})
	s.press("P", "2", "t")
	for s.model.Selected.Thread != 12 {
		s.press("down")
	}
	if cmds := s.press("enter"); len(cmds) != 0 {
		t.Errorf("%d commands", len(cmds))
	}
	s.sees("directories are hidden")
	s.misses("/srv/app")
}
