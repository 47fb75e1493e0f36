package account

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

func TestWaitList(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, st := gvl.NewClassifier(p, nil), stream.New(p)
	l := New(st, p, nil)
	at := int64(gvltest.Base)
	play := func(d int64, threads ...sampler.Thread) {
		for end := at + d; at < end; {
			at += gvltest.MS
			owner := sampler.ThreadID(0)
			for i := range threads {
				if threads[i].Bits&sampler.BitLinked != 0 {
					owner = threads[i].ID
				}
				if k := &threads[i].Kernel; k.StateAtNS != 0 {
					k.StateAtNS = at
				}
			}
			s := gvltest.SampleAt(at, owner, threads...)
			st.Feed(s, c.Classify(s))
		}
	}
	play(100*gvltest.MS, gvltest.Answered(gvltest.Released(1), at, "read", 3, 7), gvltest.Holder(2))
	play(40*gvltest.MS, gvltest.Queued(1), gvltest.Holder(2))
	play(5*gvltest.MS, gvltest.Holder(1), gvltest.Queued(2))
	play(20*gvltest.MS, gvltest.Queued(1), gvltest.Holder(2))
	got := l.Longest(10, 0)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	first := got[0]
	if first.Thread != 1 || first.NS() != 40*gvltest.MS || first.InProgress || first.Before.State != gvl.IO || first.Before.Detail.Peer != 7 ||
		first.Before.DurationNS() < 98*gvltest.MS || first.Before.DurationNS() > 100*gvltest.MS {
		t.Errorf("the wait after the read: %+v", first)
	}
	if w := got[1]; w.Thread != 1 || !w.InProgress || w.Before.State != gvl.Running || w.Before.DurationNS() != 5*gvltest.MS || w.NS() < 19*gvltest.MS || w.NS() > 20*gvltest.MS {
		t.Errorf("the wait that goes on: %+v", w)
	}
	if w := got[2]; w.Thread != 2 || w.NS() != 5*gvltest.MS {
		t.Errorf("the short one: %+v", w)
	}
	if got := l.Longest(10, 10*gvltest.MS); len(got) != 2 {
		t.Errorf("over the threshold: %+v", got)
	}
	if got := l.Longest(1, 0); len(got) != 1 || got[0] != first {
		t.Errorf("one: %+v", got)
	}
	// A wait also ends when its thread ends, and at a gap in the samples.
	play(gvltest.MS, gvltest.Holder(2))
	at += 60_000 * gvltest.MS
	play(gvltest.MS, gvltest.Holder(2))
	if got := l.Longest(10, 0); len(got) != 3 || got[1].InProgress {
		t.Errorf("after the end: %+v", got)
	}
}

func TestWaitListKeepsTheLongest(t *testing.T) {
	l := New(stream.New(gvltest.ProcOf(sampler.EraSched)), sampler.Process{}, nil)
	rng := rand.New(rand.NewPCG(5, 6))
	var all []int64
	for range 3000 {
		ns := rng.Int64N(1 << 30)
		all = append(all, ns)
		l.longest.add(&gvl.Wait{ToNS: ns, MostNS: ns})
	}
	slices.SortFunc(all, func(a, b int64) int { return int(b - a) })
	for i, w := range l.Longest(maxLongestWaits, 0) {
		if w.NS() != all[i] {
			t.Fatalf("place %d: %d, want %d", i, w.NS(), all[i])
		}
	}
}
