package store

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

func TestWaitEventsForgetTheOldest(t *testing.T) {
	var w waitEvents
	const n = maxWaitEvents + 1000
	for i := range int64(n) {
		w.add(WaitEvent{EndNS: i, LenNS: i, LeastNS: i, MostNS: i, Thread: 1 + sampler.ThreadID(i%2)})
	}
	if w.FromNS() != 1000 || len(w.ring) != maxWaitEvents {
		t.Fatalf("from %d, %d kept", w.FromNS(), len(w.ring))
	}
	got := w.ByThread(n-100, n, []gvl.ThreadState{{Thread: 1, State: gvl.Waiting, AtNS: 2 * n}}, ListOf{Thread: 2, AtMost: 3})
	if got[1].Count() != 51 || got[2].Count() != 50 {
		t.Errorf("%+v", got)
	}
	if l := got[2].Longest; len(l) != 3 || l[0].LenNS != n-1 || l[2].LenNS != n-5 {
		t.Errorf("%+v", l)
	}
	if q := got[2].Lengths.Quantile(0.99); q.NS != n-1 {
		t.Errorf("p99 %+v", q)
	}
}

// TestWaitLogKeeps: of what the ring has no room for, the longest of each second stay, and no wait is given twice.
func TestWaitLogKeeps(t *testing.T) {
	const each, seconds = 3000, 60
	r := rand.New(rand.NewPCG(7, 7))
	w := NewWaitLog(2 * time.Minute)
	longest := make([][]int64, seconds)
	for sec := range seconds {
		for i := range each {
			e := WaitEvent{EndNS: int64(sec)*WaitSlotNS + int64(i)*WaitSlotNS/each, LenNS: 1 + r.Int64N(1e9), Thread: 1}
			w.Add(&e)
			w.Events.add(e)
			longest[sec] = append(longest[sec], e.LenNS)
		}
		slices.Sort(longest[sec])
	}
	got, seen := make([][]int64, seconds), make(map[WaitKey]bool)
	w.Each(0, seconds*WaitSlotNS, func(e *WaitEvent) {
		if seen[e.Key()] {
			t.Fatalf("the wait that ended at %d comes twice", e.EndNS)
		}
		seen[e.Key()] = true
		got[e.EndNS/WaitSlotNS] = append(got[e.EndNS/WaitSlotNS], e.LenNS)
	})
	whole := 0
	for sec := range seconds {
		slices.Sort(got[sec])
		if len(got[sec]) == each {
			whole++
			continue
		}
		if n := len(got[sec]); n < longestEach || !slices.Equal(got[sec][n-longestEach:], longest[sec][each-longestEach:]) {
			t.Errorf("second %d: %d waits, not the longest", sec, n)
		}
	}
	if want := maxWaitEvents / each; whole != want {
		t.Errorf("%d seconds are whole, want %d", whole, want)
	}
}
