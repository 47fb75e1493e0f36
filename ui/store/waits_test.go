package store

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestWaitEventsForgetTheOldest: when there are more waits than maxWaitEvents, a block of the oldest waits is dropped.
// The other waits must still be found by their times and by their numbers.
func TestWaitEventsForgetTheOldest(t *testing.T) {
	w := NewWaitLog(time.Minute)
	const n = maxWaitEvents + 1000
	for i := range int64(n) {
		e := WaitEvent{EndNS: i, LenNS: i, LeastNS: i, MostNS: i, Thread: 1 + sampler.ThreadID(i%2)}
		w.Add(&e)
		if got := w.Events.add(e); got != int(i) || w.Events.numbered(got).EndNS != i {
			t.Fatalf("wait %d has the number %d", i, got)
		}
	}
	if from, kept := w.Events.FromNS(), w.Events.count(); from != waitBlock || kept != n-waitBlock || w.Events.numbered(waitBlock-1) != nil {
		t.Fatalf("from %d, %d kept", from, kept)
	}
	if got := w.AllSince(0); got != waitBlock {
		t.Errorf("all since %d", got)
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

// TestWaitsOfAnHour: single waits are stored only for ten minutes. Even so, if each second has only a few waits, all
// waits of an hour must be known. If one second has more than longestEach waits, all waits are known only after this
// second.
func TestWaitsOfAnHour(t *testing.T) {
	const each, seconds = longestEach - 2, 3000
	w := NewWaitLog(time.Hour)
	for sec := range seconds {
		n := each
		if sec == 100 {
			n = longestEach + 1
		}
		for i := range n {
			e := WaitEvent{EndNS: int64(sec)*WaitSlotNS + int64(i), LenNS: 1, Thread: 1}
			w.Add(&e)
			w.Events.add(e)
		}
	}
	if n, most := w.Events.count(), int(keepEventsNS/WaitSlotNS)*each+2*waitBlock; n > most {
		t.Errorf("%d waits are kept, at most %d expected", n, most)
	}
	const end = seconds * WaitSlotNS
	for _, c := range []struct{ fromNS, wantNS int64 }{
		{200 * WaitSlotNS, 200 * WaitSlotNS}, {200*WaitSlotNS + 7, 200*WaitSlotNS + 7}, {50 * WaitSlotNS, 101 * WaitSlotNS}, {-5, 101 * WaitSlotNS}, {end, end},
	} {
		if got := w.AllSince(c.fromNS); got != c.wantNS {
			t.Errorf("since %d: %d, want %d", c.fromNS, got, c.wantNS)
		}
	}
	if n := w.ByThread(200*WaitSlotNS, end, nil, ListOf{})[1].Count(); n != (seconds-200)*each {
		t.Errorf("%d waits, want %d", n, (seconds-200)*each)
	}
}

// TestWaitLogKeeps: when the memory for single waits is full, the longest waits of each second must still be kept. No
// wait is returned twice.
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
	w.ForEach(0, seconds*WaitSlotNS, func(e *WaitEvent) {
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

// TestWaitLengths compares the quantiles of waits in a time span with the quantiles of the sorted lengths. A quantile
// may be 4 % too small, but the longest wait must be exact.
func TestWaitLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := NewWaitLog(time.Minute)
	var all []int64
	for range 5000 {
		ns := int64(math.Exp(r.Float64()*12)) * 1000
		second := int64(r.IntN(30))
		w.Add(&WaitEvent{EndNS: second * WaitSlotNS, LenNS: ns, LeastNS: ns, MostNS: ns})
		if second >= 10 && second <= 20 {
			all = append(all, ns)
		}
	}
	const longest = 777_777_777_777
	open := []gvl.Wait{{ToNS: longest, LeastNS: longest, MostNS: longest, InProgress: true}}
	all = append(all, longest)
	slices.Sort(all)
	got, n := w.Lengths(10*WaitSlotNS, 20*WaitSlotNS, open)
	if n != int64(len(all)) {
		t.Fatalf("%d waits, want %d", n, len(all))
	}
	for i, q := range WaitShares {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if float64(got[i].NS) < 0.96*float64(want) || got[i].NS > want || got[i].Bound != gvl.AtLeast {
			t.Errorf("%g: %+v, want %d", q, got[i], want)
		}
	}
	if got[WaitMax].NS != longest {
		t.Errorf("the longest is %+v", got[WaitMax])
	}
	if got, n := w.Lengths(50*WaitSlotNS, 55*WaitSlotNS, nil); n != 0 || got != [len(WaitShares)]gvl.Bounded{} {
		t.Errorf("no waits: %v, %d", got, n)
	}
}

// TestWaitsAfterBoot: CLOCK_MONOTONIC is zero at boot. Soon after boot, the time span on the screen can begin at a
// negative time.
func TestWaitsAfterBoot(t *testing.T) {
	w := NewWaitLog(DefaultHistory)
	if _, n := w.Lengths(-29e9, 1e9, []gvl.Wait{{ToNS: 5e6, MostNS: 5e6, InProgress: true}}); n != 1 {
		t.Errorf("%d waits, want the one that goes on", n)
	}
}

// TestRequestOfAWait: a wait belongs to the request that its thread served during the wait, and not to an earlier one.
// If the request is unknown or changes during the wait, the wait belongs to no request.
func TestRequestOfAWait(t *testing.T) {
	const thread, slot = 7, 2
	interval := func(s gvl.State, fromNS, toNS int64, work sampler.WorkID) func(*waitLog) {
		return func(w *waitLog) {
			w.Interval(&gvl.Interval{Thread: thread, Slot: slot, State: s, FromNS: fromNS, ToNS: toNS, Serving: sampler.Serving{Work: work}})
		}
	}
	wait := func(fromNS, toNS int64) func(*waitLog) {
		return func(w *waitLog) {
			w.Waited(&gvl.Wait{Thread: thread, Slot: slot, FromNS: fromNS, ToNS: toNS, LeastNS: toNS - fromNS, MostNS: toNS - fromNS})
		}
	}
	for _, c := range []struct {
		name  string
		steps []func(*waitLog)
		want  []sampler.WorkID
	}{
		{"told after the wait", []func(*waitLog){interval(gvl.Running, 50, 100, 1), wait(100, 200), interval(gvl.Waiting, 100, 200, 2)}, []sampler.WorkID{2}},
		{"told in two parts", []func(*waitLog){interval(gvl.Waiting, 100, 150, 2), wait(100, 200), interval(gvl.Waiting, 150, 200, 2)}, []sampler.WorkID{2}},
		{"two requests", []func(*waitLog){interval(gvl.Waiting, 100, 150, 1), wait(100, 200), interval(gvl.Waiting, 150, 200, 2)}, []sampler.WorkID{0}},
		{"not told", []func(*waitLog){interval(gvl.Running, 50, 100, 1), wait(100, 200), interval(gvl.Running, 200, 300, 1)}, []sampler.WorkID{0}},
		{"for nobody after a request", []func(*waitLog){interval(gvl.Running, 50, 100, 1), wait(100, 200), interval(gvl.Waiting, 100, 200, 0)}, []sampler.WorkID{0}},
		{"two waits between two readings", []func(*waitLog){
			wait(100, 200), wait(300, 400), interval(gvl.Waiting, 100, 200, 1), interval(gvl.Running, 200, 300, 1), interval(gvl.Waiting, 300, 400, 2),
		}, []sampler.WorkID{1, 2}},
	} {
		w := NewWaitLog(time.Minute)
		for _, step := range c.steps {
			step(w)
		}
		var got []sampler.WorkID
		w.Events.ForEach(0, 1e9, func(e *WaitEvent) { got = append(got, e.Work) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		for i, e := range w.slots[0].longest {
			if e.Work != c.want[i] {
				t.Errorf("%s: of the longest %d is for %d", c.name, i, e.Work)
			}
		}
	}
}
