package gvl

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestWaitList(t *testing.T) {
	p := procOf(sampler.EraSched)
	c, st := NewClassifier(p, nil), NewStream(p)
	l := NewAccount(st, p, nil)
	at := int64(base)
	play := func(d int64, threads ...sampler.Thread) {
		for end := at + d; at < end; {
			at += ms
			owner := sampler.ThreadID(0)
			for i := range threads {
				if threads[i].Bits&sampler.BitLinked != 0 {
					owner = threads[i].ID
				}
				if k := &threads[i].Kernel; k.StateAtNS != 0 {
					k.StateAtNS = at
				}
			}
			s := sampleAt(at, owner, threads...)
			st.Feed(s, c.Classify(s))
		}
	}
	play(100*ms, answered(released(1), at, "read", 3, 7), holder(2))
	play(40*ms, queued(1), holder(2))
	play(5*ms, holder(1), queued(2))
	play(20*ms, queued(1), holder(2))
	got := l.longestWaits(10, 0)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	first := got[0]
	if first.Thread != 1 || first.NS() != 40*ms || first.InProgress || first.Before.State != IO || first.Before.Detail.Peer != 7 ||
		first.Before.DurationNS() < 98*ms || first.Before.DurationNS() > 100*ms {
		t.Errorf("the wait after the read: %+v", first)
	}
	if w := got[1]; w.Thread != 1 || !w.InProgress || w.Before.State != Running || w.Before.DurationNS() != 5*ms || w.NS() < 19*ms || w.NS() > 20*ms {
		t.Errorf("the wait that goes on: %+v", w)
	}
	if w := got[2]; w.Thread != 2 || w.NS() != 5*ms {
		t.Errorf("the short one: %+v", w)
	}
	if got := l.longestWaits(10, 10*ms); len(got) != 2 {
		t.Errorf("over the threshold: %+v", got)
	}
	if got := l.longestWaits(1, 0); len(got) != 1 || got[0] != first {
		t.Errorf("one: %+v", got)
	}
	// A thread that ends while it waits, and a gap, end a wait.
	play(ms, holder(2))
	at += 60_000 * ms
	play(ms, holder(2))
	if got := l.longestWaits(10, 0); len(got) != 3 || got[1].InProgress {
		t.Errorf("after the end: %+v", got)
	}
}

func TestWaitListKeepsTheLongest(t *testing.T) {
	l := NewAccount(NewStream(procOf(sampler.EraSched)), sampler.Process{}, nil)
	rng := rand.New(rand.NewPCG(5, 6))
	var all []int64
	for range 3000 {
		ns := rng.Int64N(1 << 30)
		all = append(all, ns)
		l.longest.add(&Wait{ToNS: ns, MostNS: ns})
	}
	slices.SortFunc(all, func(a, b int64) int { return int(b - a) })
	for i, w := range l.longestWaits(maxLongestWaits, 0) {
		if w.NS() != all[i] {
			t.Fatalf("place %d: %d, want %d", i, w.NS(), all[i])
		}
	}
}
