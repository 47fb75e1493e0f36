package store

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// randomSource describes the process and has the names for random samples of a test. It does not deliver the samples
// itself.
type randomSource struct {
	sampler.Source
	p    sampler.Process
	dict *sampler.Dictionary
}

func (r randomSource) Process() sampler.Process        { return r.p }
func (r randomSource) Dictionary() *sampler.Dictionary { return r.dict }

// TestFlamegraphAgreesWithAccount: the flamegraph and package account compute separately how long each thread was in
// each state. For the same samples both must have the same times, to the nanosecond, even where samples are missing.
// The timeline must agree with the account, too.
func TestFlamegraphAgreesWithAccount(t *testing.T) {
	for seed := range uint64(12) {
		d := sampler.NewDictionary()
		p := streamtest.Process(1000, 100)
		s, err := New(randomSource{demosource.New(demosource.Options{Length: time.Second}), p, d}, Options{History: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		stream := streamtest.New(seed, d)
		stream.Damaged = seed%2 == 1
		for range 1500 {
			s.Feed(stream.Next())
		}
		s.fold.Stream().Finish()
		s.collector.Finish()
		var snap flamegraph.Snapshot
		s.rolling.Snapshot(&snap)
		byThread := map[sampler.ThreadID][gvl.NumStates]int64{}
		for _, e := range snap.Entries {
			ns := byThread[e.Key.Thread]
			ns[e.Key.State] += e.Weights.WallNS
			byThread[e.Key.Thread] = ns
		}
		s.Read(func(r *Reading) {
			st := r.Account.Stat()
			if st.NotSampled == 0 {
				t.Fatalf("seed %d: no gap", seed)
			}
			for _, th := range st.Threads {
				got, want := report.StatesOf(byThread[th.ID]), th.NS
				// The flamegraph and the account may differ here. Unlike the account, the flamegraph also shows a
				// server without a client, and a sleep outside of requests, as parked.
				if got.Parked < want.Parked || got.Parked+got.IO+got.Sleeping != want.Parked+want.IO+want.Sleeping {
					t.Errorf("seed %d thread %d: parked, io and asleep: %+v, the account has %+v", seed, th.ID, got, want)
				}
				got.Parked, got.IO, got.Sleeping = want.Parked, want.IO, want.Sleeping
				if got != want {
					t.Errorf("seed %d thread %d:\nflamegraph %+v\naccount    %+v", seed, th.ID, got, want)
				}
			}
		})
	}
}
