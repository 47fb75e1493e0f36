package scene

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
)

// TestRowsHaveTheStatesOfTheFlamegraph: the list of threads has state lock for a thread if and only if the flamegraph
// has it. Only for rest the list says which kind it is.
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
