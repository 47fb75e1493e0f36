package findings

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// caller plays three threads that call Redis again and again for 15 s. Each round takes callNS, and nine tenths of this
// time is the call. Samples are lookNS apart. The threads' CPU counters are read every readNS. If turns is true, they
// also count how often a thread got a CPU.
func (s *scene) caller(callNS, lookNS, readNS int64, turns, lowered, paused bool) {
	peer := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.6:6379", Local: "10.0.0.1", Service: "Redis"})
	stack, work := s.stack("c:IO#read", "RedisClient#call"), s.stack("Work#step")
	var read sampler.Kernel
	pauses := uint64(0)
	for end := s.now + 15*gvltest.Sec; s.now < end; {
		s.now += lookNS
		var list []sampler.Thread
		fresh := s.now/readNS != (s.now-lookNS)/readNS
		if fresh {
			pauses++
			n := s.now / callNS
			read.CPUAtNS, read.CPUNS, read.RunDelayNS = s.now, n*80_000, 0
			if turns {
				read.Turns = n
			}
			if paused {
				read.CPUNS, read.Turns = read.CPUNS+int64(pauses)*30_000, n+int64(pauses)
			}
		}
		owner := sampler.ThreadID(0)
		for id := range sampler.ThreadID(3) {
			if phase := (s.now + int64(id)*callNS/3) % callNS; phase >= callNS*9/10 {
				owner = id + 1
			}
		}
		for id := range sampler.ThreadID(3) {
			th := s.at(gvltest.Answered(gvltest.Released(id+1), s.now-1, "read", 9, peer), stack)
			if id+1 == owner {
				th = s.at(gvltest.Holder(owner), work)
			}
			th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.Turns = read.CPUAtNS, read.CPUNS, read.Turns
			list = append(list, th)
		}
		x := gvltest.SampleAt(s.now, owner, list...)
		x.Self.Lowered, x.Reads.Pauses = lowered, pauses
		if fresh && paused {
			x.PauseNS = 1
		} else if !fresh {
			x.Depth = sampler.LockTick
		}
		s.stream.Feed(x, s.c.Classify(x))
	}
}

// TestShortCallsSeldomRead: a call is reported as slow only if it is proven to be slow. If counters are read too
// seldom, many short calls look like one long call. A long call is proven only if two readings show that the thread has
// not had a CPU between them.
func TestShortCallsSeldomRead(t *testing.T) {
	for _, c := range []struct {
		what                   string
		callNS, lookNS, readNS int64
		turns, lowered, paused bool
		slow                   bool
	}{
		{"short, all rates", 999_983, 1 * gvltest.MS, 10 * gvltest.MS, true, false, false, false},
		{"short, a budget", 999_983, 13 * gvltest.MS, 104 * gvltest.MS, true, true, false, false},
		{"short, a small budget", 999_983, 97 * gvltest.MS, 970 * gvltest.MS, true, true, false, false},
		{"short, many threads", 999_983, 7 * gvltest.MS, 140 * gvltest.MS, true, false, false, false},
		{"short, counters without turns", 999_983, 13 * gvltest.MS, 104 * gvltest.MS, false, true, false, false},
		{"short, stopped for samples", 999_983, 7 * gvltest.MS, 14 * gvltest.MS, true, false, true, false},
		{"short, stopped for samples, a budget", 999_983, 13 * gvltest.MS, 104 * gvltest.MS, true, true, true, false},
		{"long, all rates", 300 * gvltest.MS, 5 * gvltest.MS, 10 * gvltest.MS, true, false, false, true},
		{"long, a budget", 300 * gvltest.MS, 13 * gvltest.MS, 104 * gvltest.MS, true, true, false, true},
		{"long, many threads", 300 * gvltest.MS, 5 * gvltest.MS, 100 * gvltest.MS, true, false, false, true},
		{"long, counters without turns", 300 * gvltest.MS, 5 * gvltest.MS, 10 * gvltest.MS, false, false, false, true},
		{"long, stopped for samples", 300 * gvltest.MS, 5 * gvltest.MS, 10 * gvltest.MS, true, false, true, true},
	} {
		s := newScene(t)
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS, p.Pauses = gvltest.Base-60*gvltest.Sec, c.paused
		s.c = gvl.NewClassifier(p, s.dict)
		s.watch(p, nil)
		s.caller(c.callNS, c.lookNS, c.readNS, c.turns, c.lowered, c.paused)
		got := false
		for _, id := range s.ids() {
			got = got || id == "redis_slow"
		}
		if got != c.slow {
			t.Errorf("%s: slow is %v: %v", c.what, got, s.f.Current())
		}
	}
}
