package ui

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestEndedThreadsDoNotCrowdOut: short-lived threads that were busy for most of their milliseconds are no work that counts, unless
// they are many; and the rows of those that have ended do not open by themselves.
func TestEndedThreadsDoNotCrowdOut(t *testing.T) {
	const span = int64(30e9)
	for _, c := range []struct {
		name   string
		busyNS int64
		first  string
	}{{"a few ms each", 3e6, "web-1"}, {"a second each", 1e9, "thread ×14"}} {
		var l threadList
		for i := range 14 {
			l = append(l, threadRow{id: sampler.ThreadID(i + 1), name: "thread", busyNS: c.busyNS})
		}
		l = append(l, threadRow{id: 20, name: "web-1", seen: true, busyNS: span, active: true}, threadRow{id: 21, name: "main", seen: true})
		var sel selection
		v := newTimelineView(&sel)
		v.toNS = span
		v.buildRows(l, 100)
		if len(v.rows) != 3 || v.rows[0].name != c.first {
			t.Errorf("%s: %+v", c.name, v.rows)
		}
	}
}

// TestPoolWaitersDoNotRest: who waits for a pool by a finding is shown as waiting, as long as it waits in something, and no other is.
func TestPoolWaitersDoNotRest(t *testing.T) {
	parked := func(kind string) gvl.ThreadState {
		return gvl.ThreadState{State: gvl.Parked, Detail: gvl.Detail{Kind: kind}}
	}
	l := threadList{{id: 1, known: true, state: parked("Queue")}, {id: 2, known: true, state: parked("Queue")},
		{id: 3, known: true, state: parked("Thread")}, {id: 4, known: true, state: gvl.ThreadState{State: gvl.Running}}, {id: 5}}
	l.waitForPool([]gvl.Finding{{ID: "gc_time", Threads: []sampler.ThreadID{2}}, {ID: "pool_wait", Threads: []sampler.ThreadID{1, 3, 4, 5}}})
	var shown []sampler.ThreadID
	for i := range l {
		if l[i].state.State == gvl.Lock && l[i].active {
			shown = append(shown, l[i].id)
		}
	}
	if !slices.Equal(shown, []sampler.ThreadID{1}) {
		t.Errorf("%d are shown as waiting", shown)
	}
}
