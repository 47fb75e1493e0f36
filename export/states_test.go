package export

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestFlamegraphAgreesWithStat feeds one random stream to gvl's account and to a flamegraph: a thread's time by state must
// be the same in both, to the nanosecond, gaps included.
func TestFlamegraphAgreesWithStat(t *testing.T) {
	for seed := uint64(0); seed < 30; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 11))
		p := sampler.Process{PID: 1, Era: sampler.EraSched, LockRate: 1000, StackRate: 100, RubyVersion: "3.4.1"}
		if seed%3 == 0 {
			p.LockRate, p.StackRate = 20, 10 // then a gap is longer
		}
		d := sampler.NewDictionary()
		fold := gvl.NewFold(p, d, gvl.Options{})
		r, err := flamegraph.NewRolling(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := flamegraph.NewCollector(Meaning(p), r)
		s := &sampler.Sample{TimeNS: 5e9, Ractors: []sampler.Ractor{{ID: 1}}}
		for i := range 6 {
			s.Threads = append(s.Threads, sampler.Thread{ID: sampler.ThreadID(i + 1), Ractor: 1, TID: int32(100 + i), Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1}})
		}
		var tags []uint8
		for tick := range 800 {
			s.TimeNS += 1 + rnd.Int64N(3e6)
			if rnd.IntN(60) == 0 {
				s.TimeNS += rnd.Int64N(2e9)
			}
			s.Slow = tick/100%3 == 1
			s.Depth = sampler.LockTick
			if tick%10 == 0 {
				s.Depth = sampler.StackTick
			}
			owner := rnd.IntN(len(s.Threads))
			for i := range s.Threads {
				shuffle(rnd, &s.Threads[i], i == owner, s.TimeNS)
			}
			s.Ractors[0].OwnerStart, s.Ractors[0].OwnerEnd = s.Threads[owner].ID, s.Threads[owner].ID
			fold.Feed(s)
			fold.Read(func(v *gvl.View) { tags = StateTags(v.States, tags[:0]) })
			c.Feed(s, tags)
		}
		c.Finish()
		var snap flamegraph.Snapshot
		r.Snapshot(&snap)
		byThread := snap.Threads()
		var stat gvl.Stat
		fold.Read(func(v *gvl.View) { stat = v.Account.Stat() })
		if stat.NotSampled != c.NotSampledNS() {
			t.Errorf("seed %d: not sampled %d, gvl says %d", seed, c.NotSampledNS(), stat.NotSampled)
		}
		if len(stat.Threads) != len(s.Threads) {
			t.Fatalf("seed %d: %d threads", seed, len(stat.Threads))
		}
		states := map[gvl.State]bool{}
		for _, th := range stat.Threads {
			var ns [gvl.NumStates]int64
			for tag, w := range byThread[th.ID] {
				if w.WallNS > 0 {
					ns[tag] = w.WallNS
					states[gvl.State(tag)] = true
				}
			}
			if got := gvl.StatesOf(ns); got != th.NS {
				t.Fatalf("seed %d thread %d:\nflamegraph %+v\ngvl        %+v", seed, th.ID, got, th.NS)
			}
		}
		if len(states) < 5 {
			t.Errorf("seed %d: only %v occurred: the stream tests too little", seed, states)
		}
	}
}

// shuffle gives a thread random evidence, now and then.
func shuffle(rnd *rand.Rand, t *sampler.Thread, owner bool, at int64) {
	t.Bits &^= sampler.BitLinked
	if owner {
		t.Bits, t.Status, t.Blocked.Kind = sampler.BitLinked, sampler.Runnable, sampler.BlockNone
		return
	}
	if rnd.IntN(8) != 0 {
		return
	}
	t.Kernel = sampler.Kernel{FD: -1, StateAtNS: at, CPUAtNS: at, CPUNS: at / 3, Syscall: []string{"read", "futex", sampler.SyscallRunning, "poll"}[rnd.IntN(4)]}
	t.Status, t.Bits, t.Blocked = sampler.Stopped, sampler.BitBlockingRegion, sampler.Blocked{FD: -1}
	switch rnd.IntN(5) {
	case 0:
		t.Status, t.Bits = sampler.Runnable, sampler.BitQueued
	case 1:
		t.Blocked.Kind, t.Status = sampler.BlockMutex, sampler.StoppedForever
	case 2:
		t.Blocked.Kind = sampler.BlockSleep
	}
}
