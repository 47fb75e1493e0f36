package streamtest

import (
	"math/rand/v2"

	"github.com/ddtop/ddtop/sampler"
)

// Changes adds random changes of the GVL to a sample, as if they happened since the previous sample. They are like
// those in a hostile process or a damaged recording. Their threads may be unknown, and their times out of order or
// outside the interval. Their states may contradict each other, or the states of the previous sample. Now and then
// there are no changes for a while.
func Changes(rng *rand.Rand, s *sampler.Sample, last *sampler.Changes) {
	s.Changes = sampler.Changes{}
	switch rng.IntN(40) {
	case 0:
		*last = sampler.Changes{}
		return
	case 1:
		last.FromNS, last.ToNS, last.Fresh = 0, s.TimeNS-rng.Int64N(5e6), true
	case 2:
		last.ToNS += rng.Int64N(2e6)
	}
	if last.ToNS == 0 {
		return // no changes are recorded now
	}
	c := sampler.Changes{FromNS: last.ToNS, ToNS: s.TimeNS, Fresh: last.Fresh || rng.IntN(50) == 0}
	n := rng.IntN(12)
	if rng.IntN(200) == 0 {
		n = 20_000
	}
	at := c.FromNS
	for range n {
		if room := c.ToNS - at; room > 0 {
			at += rng.Int64N(room/4 + 2)
		}
		g := sampler.Change{AtNS: at, State: sampler.GVLState(rng.IntN(5)), NoCPUNS: rng.Int64N(1e6), Doubtful: rng.IntN(20) == 0}
		if len(s.Threads) > 0 {
			t := &s.Threads[rng.IntN(len(s.Threads))]
			g.Thread, g.TID = t.ID, t.TID
		}
		if g.NoCPUNS%2 == 0 {
			// some of these IDs are unknown
			g.Stack, g.Resumes = sampler.StackID(g.NoCPUNS%97), sampler.StackID(g.NoCPUNS%89)
		}
		if n := g.NoCPUNS; n%3 == 0 {
			g.Doing = sampler.Doing{Kind: sampler.DoingKind(n % 5), Syscall: []string{"read", "futex", "poll", "select"}[n%4], FD: int32(n % 9), FDs: int32(n % 3), Status: sampler.Status(n % 6), Region: n%2 == 0, Left: n%7 == 0, Mutex: uint64(n % 5)}
		}
		switch rng.IntN(60) {
		case 0:
			g.Thread, g.TID = 0, int32(rng.IntN(3))
		case 1:
			g.Thread = sampler.ThreadID(rng.IntN(1000))
		case 2:
			g.AtNS -= 50e6
		case 3:
			g.AtNS += 50e6
		case 4:
			g.State, g.NoCPUNS = sampler.GVLState(rng.IntN(256)), -1<<62
		}
		c.List = append(c.List, g)
	}
	s.Changes, *last = c, sampler.Changes{FromNS: c.FromNS, ToNS: c.ToNS}
}
