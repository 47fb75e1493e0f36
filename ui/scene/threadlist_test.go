package scene

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// TestRowsHaveTheStatesOfTheFlamegraph: to Ruby, a thread that waits for another thread looks like a worker without
// work. The list of threads must show the state lock for a thread if the flamegraph does, and only then. The kind of a
// thread's rest is shown only by the list.
func TestRowsHaveTheStatesOfTheFlamegraph(t *testing.T) {
	d := sampler.NewDictionary()
	stack := func(labels ...string) (id sampler.StackID) {
		for i := len(labels) - 1; i >= 0; i-- {
			id = d.InternStack(id, d.InternFrame(sampler.Frame{Label: labels[i], Name: labels[i]}))
		}
		return id
	}
	request := d.InternWork(sampler.Work{Number: 1, Endpoint: "GET /"})
	resting := findings.NewResting(d)
	rows, s := Threads{}, &sampler.Sample{}
	add := func(st gvl.State, kind string, work sampler.WorkID, labels ...string) {
		id := sampler.ThreadID(len(rows) + 1)
		rows = append(rows, Thread{ID: id, Known: true,
			State: gvl.ThreadState{Thread: id, State: st, Detail: gvl.Detail{Kind: kind}, Stack: stack(labels...)}})
		s.Threads = append(s.Threads, sampler.Thread{ID: id, Serving: sampler.Serving{Work: work}})
	}
	add(gvl.Parked, "Queue", 0, "Queue#pop", "Puma::ThreadPool#spawn_thread")
	add(gvl.Parked, "ConditionVariable", 0, "ConditionVariable#wait", "ConnectionPool#checkout", "Report#run")
	add(gvl.Sleeping, "ConditionVariable", 0, "ConditionVariable#wait", "ConnectionPool#checkout", "Report#run")
	add(gvl.Parked, "Queue", request, "Queue#pop", "Orders#show")
	add(gvl.Parked, "Thread", request, "Thread#join", "Orders#show")
	add(gvl.Sleeping, "", request, "Kernel#sleep", "Orders#show")
	add(gvl.Sleeping, "", 0, "Kernel#sleep", "Poller#run")
	add(gvl.Running, "", request, "Orders#show")
	add(gvl.Lock, "Mutex", 0, "Mutex#lock", "Poller#run")
	want := make([]gvl.State, len(rows))
	for i := range rows {
		ts := &rows[i].State
		want[i] = resting.State(ts.State, &ts.Detail, ts.Stack, s.Threads[i].Serving.Work)
	}
	rows.WaitForOthers(resting, s)
	locks := 0
	for i := range rows {
		got := rows[i].State.State
		if got != want[i] && (want[i] != gvl.Parked || !got.Idle()) {
			t.Errorf("thread %d is %v in the list, %v in the flamegraph", i+1, got, want[i])
		}
		if got == gvl.Lock {
			locks++
			if !rows[i].Active {
				t.Errorf("thread %d is not active", i+1)
			}
		}
	}
	if locks != 5 {
		t.Errorf("%d threads in state lock, want 5", locks)
	}
}

// TestIdleThreadsAreNotCountedAsIO: a server's thread waits in state io for its next request. Rows and groups must show
// it as idle. While the thread serves a request, they must show io, whatever its stack shows.
func TestIdleThreadsAreNotCountedAsIO(t *testing.T) {
	theme, err := style.ThemeByName("dark")
	if err != nil {
		t.Fatal(err)
	}
	d := sampler.NewDictionary()
	request := d.InternWork(sampler.Work{Number: 1, Endpoint: "GET /"})
	io := gvl.ThreadState{State: gvl.IO, Detail: gvl.Detail{Op: gvl.OpRead, FD: -1}}
	l := Threads{{ID: 1, Known: true, Seen: true, State: io, Idle: "waits for work"}, {ID: 2, Known: true, Seen: true, State: io, Idle: "waits for input"},
		{ID: 3, Known: true, Seen: true, State: io}}
	l.WaitForOthers(findings.NewResting(d), &sampler.Sample{Threads: []sampler.Thread{{ID: 1}, {ID: 2, Serving: sampler.Serving{Work: request}}, {ID: 3}}})
	for i, want := range []string{"idle, waits for work", "io ← read", "io ← read"} {
		if got := l[i].Forms(d)[0]; got != want {
			t.Errorf("thread %d: %q, want %q", i+1, got, want)
		}
	}
	counts := l.States([]int{0, 1, 2})
	for w, want := range map[int]string{20: "2 io · 1 idle", 12: "2 io 1 idle", 9: "2i 1 idle"} {
		var grid canvas.Grid
		grid.Reset(w, 1)
		counts.Draw(grid.Area(), &theme, theme.Plain())
		got := ""
		for x := range w {
			if r := grid.At(x, 0).Rune; r != 0 {
				got += string(r)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%d columns: %q, want %q", w, got, want)
		}
	}
	if got := counts.String(); got != "2 io · 1 idle" {
		t.Errorf("%q", got)
	}
}
