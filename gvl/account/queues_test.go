package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestStatQueues: a Stat has the last and the largest backlog, the number of connections that wait to be accepted. It
// also has the number of connections that the kernel refused in the window. Unknown values are null.
func TestStatQueues(t *testing.T) {
	st := stream.New(sampler.Process{})
	a := New(st, sampler.Process{}, nil)
	if got := a.Stat().Queues; got != nil {
		t.Errorf("nothing was read: %+v", got)
	}
	for i, n := range []int64{1, 9, 4} {
		q := &sampler.Queues{Accept: sampler.Accept{Known: true, Overflows: 100 + n, Drops: 200 + 2*n,
			Listeners: []sampler.Listener{{Address: "0.0.0.0:80", Queued: n, Limit: sampler.UnknownCount}}},
			Pools: []sampler.Pool{{Kind: sampler.PoolPuma, Threads: 5, Busy: 3, Max: 5, Queued: 2, Clients: sampler.UnknownCount}}}
		st.Feed(&sampler.Sample{TimeNS: int64(i+1) * 1e9, Queues: q}, nil)
	}
	got := a.Stat().Queues
	if got == nil || *got.Backlog != 6 || *got.BacklogMax != 11 || *got.Overflows != 3 || *got.Drops != 6 || got.Why != nil {
		t.Fatalf("%+v", got)
	}
	if l := got.Listeners; len(l) != 1 || l[0].Address != "0.0.0.0:80" || l[0].Queued != 4 || l[0].Limit != nil {
		t.Errorf("listeners %+v", l)
	}
	if p := got.Pools; len(p) != 1 || p[0].Kind != "puma" || *p[0].Threads != 5 || *p[0].Busy != 3 || *p[0].Queued != 2 || p[0].Clients != nil {
		t.Errorf("pools %+v", p)
	}
	why := "not permitted"
	q := &sampler.Queues{Accept: sampler.Accept{Why: why, Overflows: sampler.UnknownCount, Drops: sampler.UnknownCount}}
	st.Feed(&sampler.Sample{TimeNS: 4e9, Queues: q}, nil)
	if got := a.Stat().Queues; got.Backlog != nil || got.Overflows != nil || *got.Why != why || *got.BacklogMax != 11 {
		t.Errorf("not known any more: %+v", got)
	}
}

// TestQueuedByRoute: for each route, a Stat has how long its requests waited before a thread took them. Each request is
// counted once. A route has no such time if the time is unknown for all of its requests.
func TestQueuedByRoute(t *testing.T) {
	y := newRequestStory()
	n := sampler.WorkNumber(0)
	for i := range 20 {
		n++
		queued := y.work(n, "GET queued")
		queued.QueuedNS = int64(i+1) * 100 * gvltest.MS
		y.works[1] = queued
		n++
		y.works[2] = y.work(n, "GET other")
		y.ticks(5)
		if i < 19 { // the last two stay in progress
			delete(y.works, 1)
			delete(y.works, 2)
			y.ticks(5)
		}
	}
	for _, e := range y.endpoints() {
		got := report.QueuedOf(&e.Queued)
		switch {
		case e.Name == "GET other":
			if got != nil {
				t.Errorf("%s: %+v", e.Name, got)
			}
		case got == nil:
			t.Errorf("%s: none", e.Name)
		case got.Count != 20 || got.MaxNS != 2000*gvltest.MS:
			t.Errorf("%s: %+v", e.Name, got)
		default: // quantiles are exact only to the width of a histogram's bucket
			for _, q := range [][2]int64{{got.P50NS, 1000 * gvltest.MS}, {got.P95NS, 1900 * gvltest.MS}} {
				if q[0] < q[1]*96/100 || q[0] > q[1]*104/100 {
					t.Errorf("%s: %+v", e.Name, got)
				}
			}
		}
	}
	if len(y.endpoints()) != 2 {
		t.Error(y.endpoints())
	}
}
