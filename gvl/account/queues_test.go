package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// TestStatQueues: a Stat has the last backlog and the largest, what the kernel refused in the window, and null for what
// is not known.
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
