package ui

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
)

func TestThreadsTableSorts(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2")
	s.sees("2 threads", "15 threads", "http ×8", "worker-3", "p99", "current frame", "Thread#join")
	p := s.model.pages[pageThreads].(*threadsPage)
	s.press("t") // no groups
	if len(p.table.rows) != 15 {
		t.Fatalf("%d rows for 15 threads", len(p.table.rows))
	}
	for p.table.by != "CPU" {
		s.press(">")
	}
	s.sees("by CPU")
	for i := 1; i < len(p.table.rows); i++ {
		if p.table.rows[i].cpu > p.table.rows[i-1].cpu {
			t.Errorf("%s uses more CPU than %s above it", p.table.rows[i].name, p.table.rows[i-1].name)
		}
	}
	if p.table.rows[0].name != "worker-3" || p.table.rows[0].cpu < 0.5 {
		t.Errorf("worker-3 hogs the GVL, and the first row is %s with %v", p.table.rows[0].name, p.table.rows[0].cpu)
	}
	s.press("r")
	if got := p.table.rows[len(p.table.rows)-1].name; got != "worker-3" {
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
	s.press("left") // close the group
	s.misses("http-3 ")
	s.press("right", "down", "enter")
	if s.model.page != pageThread {
		t.Fatal("enter opens the thread")
	}
	s.sees("http-1", "tid 4243", "ractor 1", "stack now", "state", "waits", "holds", "longest waits for the GVL")
	s.press("right")
	s.sees("tid 4244")
	s.press("esc")
	s.sees("current frame")
	s.press("1")
	s.sees("wall time")
	if got := s.model.selected.thread; got != 3 {
		t.Errorf("the live view has another thread selected: %d", got)
	}
}

// TestPagesFollowTime: the table shows the moment of the other views.
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
	_, states, err := s.store.Moment(s.model.atNS)
	if err != nil {
		t.Fatal(err)
	}
	s.press("t")
	p := s.model.pages[pageThreads].(*threadsPage)
	for i := range p.table.rows {
		th := &s.model.threads[p.table.rows[i].members[0]]
		for _, st := range states {
			if st.Thread == th.id && st.State != th.state.State {
				t.Errorf("%s: %s, the history says %s", th.name, th.state.State, st.State)
			}
		}
	}
	s.press("space")
	s.misses("FROZEN")
}

// TestThreadHeat: the shares of the lines are those of the weights.
func TestThreadHeat(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2", "t")
	for s.model.selected.thread != 12 { // worker-3
		s.press("down")
	}
	s.press("enter")
	p := s.model.pages[pageThread].(*threadPage)
	var total, build int64
	for _, e := range s.model.weights.Entries {
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
	if p.heat.total != total || p.heat.lines[codeLine{"/srv/app/app/reports.rb", 41}] != build || build == 0 {
		t.Errorf("line 41 has %d of %d, the weights say %d of %d", p.heat.lines[codeLine{"/srv/app/app/reports.rb", 41}], p.heat.total, build, total)
	}
}

func TestSourceIsShownWithItsLine(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("2", "t")
	for s.model.selected.thread != 12 {
		s.press("down")
	}
	cmds := s.press("enter")
	if len(cmds) != 1 {
		t.Fatalf("%d commands to read the source", len(cmds))
	}
	s.sees("reading …")
	p := s.model.pages[pageThread].(*threadPage)
	f := p.frame()
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = "# nothing"
	}
	lines[f.Line-1] = "\x1b[31mreport.each { |r| r.total }"
	s.model.Update(sourceMsg{f.AbsolutePath, &sourceFile{lines: lines}})
	l := s.line("report.each")
	if !strings.Contains(l, "▸") || strings.Contains(l, "\x1b") {
		t.Errorf("the current line is not marked, or not clean: %q", l)
	}
	s.model.Update(sourceMsg{f.AbsolutePath, &sourceFile{lines: lines, newer: true}})
	s.sees("changed after the program started")
	s.model.Update(sourceMsg{f.AbsolutePath, &sourceFile{err: os.ErrPermission}})
	s.sees("permission denied")
}

// files are those of a process, by path.
type files map[string]time.Time

func (f files) ReadFile(path string, limit int64) ([]byte, time.Time, error) {
	modified, ok := f[path]
	if !ok || limit != maxSourceBytes {
		return nil, modified, os.ErrNotExist
	}
	return []byte("a\n\tb\r\n" + strings.Repeat("\n", 2*maxSourceLines)), modified, nil
}

func TestReadSource(t *testing.T) {
	start := time.Now()
	f := readSource(files{"/x.rb": start}, "/x.rb", start.Add(-time.Hour))
	if f.err != nil || len(f.lines) != maxSourceLines || f.lines[0] != "a" || f.lines[1] != "  b" || !f.newer {
		t.Errorf("%d lines, %v, newer %t, %v", len(f.lines), f.lines[:2], f.newer, f.err)
	}
	for after, newer := range map[time.Duration]bool{-time.Hour: false, 5 * time.Millisecond: false, 2 * time.Second: true} {
		if f := readSource(files{"/x.rb": start.Add(after)}, "/x.rb", start); f.newer != newer {
			t.Errorf("a file written %v after the process started counts as changed since: %t", after, f.newer)
		}
	}
	if f := readSource(files{}, "/none.rb", time.Time{}); !errors.Is(f.err, os.ErrNotExist) {
		t.Error(f.err)
	}
}

// TestSourceIsNotReadWhilePresenting: what hides directories reads no file.
func TestSourceIsNotReadWhilePresenting(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("P", "2", "t")
	for s.model.selected.thread != 12 {
		s.press("down")
	}
	if cmds := s.press("enter"); len(cmds) != 0 {
		t.Errorf("%d commands", len(cmds))
	}
	s.sees("directories are hidden")
	s.misses("/srv/app")
}

// TestDetailSaysWhatTheStateDoesNot: the table has columns for the state and for how long; the detail repeats neither.
func TestDetailSaysWhatTheStateDoesNot(t *testing.T) {
	for _, c := range []struct {
		ts   gvl.ThreadState
		want string
	}{
		{gvl.ThreadState{State: gvl.Running}, ""},
		{gvl.ThreadState{State: gvl.Sleeping, AtNS: 98_700_000}, ""},
		{gvl.ThreadState{State: gvl.Waiting, AtNS: 98_700_000, Detail: gvl.Detail{After: gvl.GC}}, "after gc"},
		{gvl.ThreadState{State: gvl.Parked, Detail: gvl.Detail{Kind: "Thread"}}, "in Thread#join"},
		{gvl.ThreadState{State: gvl.Unknown, Detail: gvl.Detail{Reason: "torn"}}, "torn"},
	} {
		if got := beyondState(c.ts, nil); got != c.want {
			t.Errorf("%s: %q, want %q", c.ts.State, got, c.want)
		}
	}
}
