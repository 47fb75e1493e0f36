package export

import (
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestFlamegraphAgreesWithStat feeds the same random stream of samples to `ddtop stat` and to a flamegraph. Each
// thread's time by state must be the same in both, to the nanosecond. The stream has gaps, threads that come and go,
// late answers of the kernel, and damaged samples.
func TestFlamegraphAgreesWithStat(t *testing.T) {
	toldLate := false
	for seed := uint64(0); seed < 36; seed++ {
		p := streamtest.Process(1000, 100)
		if seed%3 == 0 {
			p.LockRate, p.StackRate = 20, 10 // at low rates, a longer time between two samples is not a gap
		}
		d := sampler.NewDictionary()
		stream := streamtest.New(seed, d)
		stream.Damaged = seed%2 == 1
		fold := measure.NewFold(p, d, measure.Options{})
		r, err := flamegraph.NewRolling(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := flamegraph.NewCollector(fold.Stream(), nil, r)
		open := map[sampler.ThreadID]bool{}
		for range 1500 {
			s := stream.Next()
			states := fold.Feed(s)
			for i := range states {
				ts := &states[i]
				toldLate = toldLate || open[ts.Thread] && !ts.Open() && ts.State.Released() && ts.SinceNS < s.TimeNS-20e6
				open[ts.Thread] = ts.Open()
			}
		}
		fold.Stream().Finish()
		c.Finish()
		var snap flamegraph.Snapshot
		r.Snapshot(&snap)
		byThread := map[sampler.ThreadID][gvl.NumStates]int64{}
		for _, e := range snap.Entries {
			ns := byThread[e.Key.Thread]
			ns[e.Key.State] += e.Weights.WallNS
			byThread[e.Key.Thread] = ns
		}
		stat := fold.View().Account.Stat()
		if stat.NotSampled != fold.Stream().NotSampledNS() || stat.NotSampled == 0 {
			t.Errorf("seed %d: not sampled %d, gvl says %d", seed, fold.Stream().NotSampledNS(), stat.NotSampled)
		}
		states := map[gvl.State]bool{}
		for _, th := range stat.Threads {
			ns := byThread[th.ID]
			for state := range ns {
				states[gvl.State(state)] = states[gvl.State(state)] || ns[state] > 0
			}
			if got := report.StatesOf(ns); got != th.NS {
				t.Fatalf("seed %d thread %d:\nflamegraph %+v\ngvl        %+v", seed, th.ID, got, th.NS)
			}
		}
		if len(states) < 5 {
			t.Errorf("seed %d: only %v occurred: the stream tests too little", seed, states)
		}
	}
	if !toldLate {
		t.Error("no state was told late: the streams test too little")
	}
}
