package stream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestHolderRuns: a change can contain the stack of the GVL's holder. This is a reading of the stack, like the one of a
// sample. The thread's time goes to the stack of the nearest reading, earlier or later. The GVL's time goes to the new
// stack from the reading on. The state stays the same, and no new hold begins.
func TestHolderRuns(t *testing.T) {
	dict := sampler.NewDictionary()
	var stacks []sampler.StackID
	for i := range 3 {
		stacks = append(stacks, dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: fmt.Sprint("m", i)})))
	}
	f := newExactFeed(t, dict)
	in := func(i int) sampler.Thread {
		x := gvltest.Holder(1)
		x.Stack = stacks[i]
		return x
	}
	f.at(0, 1, "fresh", in(0))
	f.at(10_000, 1, "1 released 500, 1 held 1000", in(0))
	x := gvltest.SampleAt(gvltest.Base+20_000*1000, 1, in(2))
	x.Threads[0].Quality |= sampler.StackFresh
	for _, c := range []struct {
		us    int64
		stack int
	}{{12_000, 1}, {16_000, 2}} {
		x.Changes.List = append(x.Changes.List, sampler.Change{AtNS: gvltest.Base + c.us*1000, Thread: 1, TID: 1, State: sampler.GVLHeld, Stack: stacks[c.stack]})
	}
	f.feed(x, "x")
	ns := make(map[sampler.StackID]int64)
	states := make(map[gvl.State]bool)
	add := func(i *gvl.Interval) {
		if i.FromNS >= gvltest.Base+10_000*1000 {
			ns[i.Stack] += i.NS()
			states[i.State] = true
		}
	}
	for i := range f.log.intervals {
		add(&f.log.intervals[i])
	}
	f.s.Pending(1, add)
	// The sample at 10 ms shows the first stack, and the reading at 12 ms the second one. The reading at 16 ms and the
	// sample at 20 ms show the third one. Each ms goes to the nearest reading.
	for i, want := range []int64{1 * gvltest.MS, 3 * gvltest.MS, 6 * gvltest.MS} {
		if ns[stacks[i]] != want {
			t.Errorf("m%d has %d µs, not %d", i, ns[stacks[i]]/1000, want/1000)
		}
	}
	if len(states) != 1 || !states[gvl.Running] {
		t.Errorf("states %v", states)
	}
	f.s.SettleLocks()
	var lane []string
	for _, i := range f.lane {
		if i.FromNS >= gvltest.Base+10_000*1000 && i.Thread == 1 {
			lane = append(lane, fmt.Sprintf("%d-%d m%d", (i.FromNS-gvltest.Base)/1000, (i.ToNS-gvltest.Base)/1000, i.Stack-stacks[0]))
		}
	}
	if got, want := strings.Join(lane, ", "), "10000-12000 m0, 12000-16000 m1, 16000-20000 m2"; got != want {
		t.Errorf("the lock: %s, not %s", got, want)
	}
}

// TestWaitsOfOneMoment: several threads begin to wait at the same moment. No thread holds the GVL then, and one of the
// threads is chosen as the next holder. The waits of all others must name it as first holder. This includes the wait of
// a thread that no sample has listed.
func TestWaitsOfOneMoment(t *testing.T) {
	dict := sampler.NewDictionary()
	f := newExactFeed(t, dict)
	f.at(0, 1, "fresh", gvltest.Holder(1), gvltest.Queued(2), gvltest.Queued(3), gvltest.Queued(4))
	f.at(10_000, 1, "1 held 10, 2 released 20, 3 released 30, 4 released 40", gvltest.Holder(1), gvltest.Released(2), gvltest.Released(3), gvltest.Released(4))
	f.at(20_000, 1, "1 released 12000, 2 queued 12000, 3 queued 12000, -7 queued 12000, 4 chosen 12000, 4 held 12001, 4 released 12002, "+
		"2 held 12003, 2 released 12004, 3 held 12005, 3 released 12006, -7 held 12007, -7 released 12008, 1 held 12009",
		gvltest.Holder(1), gvltest.Released(2), gvltest.Released(3), gvltest.Released(4))
	first := make(map[sampler.ThreadID]sampler.ThreadID)
	for _, w := range f.log.waits {
		if w.Exact && w.FromNS == gvltest.Base+12_000*1000 {
			first[w.Thread] = w.FirstHolder
		}
	}
	if want := (map[sampler.ThreadID]sampler.ThreadID{0: 4, 2: 4, 3: 4, 4: 0}); !maps.Equal(first, want) {
		t.Errorf("first holders %v, not %v; of %+v", first, want, f.log.waits)
	}
}

// endedLog keeps the slots of threads that have ended.
type endedLog struct {
	gvl.Ignore
	slots []int
}

func (l *endedLog) Ended(slot int, _ int64) { l.slots = append(l.slots, slot) }

// TestEndedTogether: threads that end at the same time are reported in the order of their IDs. So the same recording
// always gives the same result.
func TestEndedTogether(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, s, l := gvl.NewClassifier(p, nil), New(p), new(endedLog)
	s.Attach(l)
	var threads []sampler.Thread
	for id := range sampler.ThreadID(50) {
		threads = append(threads, gvltest.Released(id+1))
	}
	for i, list := range [][]sampler.Thread{threads, nil} {
		x := gvltest.SampleAt(gvltest.Base+int64(i)*10*gvltest.MS, 0, list...)
		s.Feed(x, c.Classify(x))
	}
	if len(l.slots) != 50 || !slices.IsSorted(l.slots) {
		t.Errorf("slots %v", l.slots)
	}
}

// TestListedWhileItWaits: a thread waits before any sample has listed it. At the moment of its first sample, it is
// chosen as the next holder. A wait names the thread that held the GVL first. This wait must not name the waiting
// thread itself.
func TestListedWhileItWaits(t *testing.T) {
	f := newExactFeed(t, sampler.NewDictionary())
	f.at(0, 1, "fresh", gvltest.Holder(1))
	f.at(10_000, 1, "1 released 5000, -2 queued 5000, 2 chosen 5000", gvltest.Released(1), gvltest.Queued(2))
	if w, ok := f.s.WaitOf(2); !ok || !w.Exact || w.FirstHolder != 0 || w.FromNS != gvltest.Base+5000*1000 {
		t.Errorf("%v %+v", ok, w)
	}
}
