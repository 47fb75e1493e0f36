package gvl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestHolderRuns: a change that says what the holder of the GVL runs is a reading of its stack: the time before and after goes to the stack read
// nearest. So does the lock's, from the reading on. The state stays as it was, and no turn begins.
func TestHolderRuns(t *testing.T) {
	dict := sampler.NewDictionary()
	var stacks []sampler.StackID
	for i := range 3 {
		stacks = append(stacks, dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: fmt.Sprint("m", i)})))
	}
	f := newExactFeed(t, dict)
	in := func(i int) sampler.Thread {
		x := holder(1)
		x.Stack = stacks[i]
		return x
	}
	f.at(0, 1, "fresh", in(0))
	f.at(10_000, 1, "1 released 500, 1 held 1000", in(0))
	x := sampleAt(base+20_000*1000, 1, in(2))
	x.Threads[0].Quality |= sampler.StackFresh
	for _, c := range []struct {
		us    int64
		stack int
	}{{12_000, 1}, {16_000, 2}} {
		x.Changes.List = append(x.Changes.List, sampler.Change{AtNS: base + c.us*1000, Thread: 1, TID: 1, State: sampler.GVLHeld, Stack: stacks[c.stack]})
	}
	f.feed(x, "x")
	ns := make(map[sampler.StackID]int64)
	states := make(map[State]bool)
	add := func(i *Interval) {
		if i.FromNS >= base+10_000*1000 {
			ns[i.Stack] += i.NS()
			states[i.State] = true
		}
	}
	for i := range f.log.intervals {
		add(&f.log.intervals[i])
	}
	f.s.Pending(1, add)
	// The sample at 10 ms has the first, the reading at 12 ms the second, that at 16 ms and the sample at 20 ms the third.
	for i, want := range []int64{1 * ms, 3 * ms, 6 * ms} {
		if ns[stacks[i]] != want {
			t.Errorf("m%d has %d µs, not %d", i, ns[stacks[i]]/1000, want/1000)
		}
	}
	if len(states) != 1 || !states[Running] {
		t.Errorf("states %v", states)
	}
	f.s.SettleLocks()
	var lane []string
	for _, i := range f.lane {
		if i.FromNS >= base+10_000*1000 && i.Thread == 1 {
			lane = append(lane, fmt.Sprintf("%d-%d m%d", (i.FromNS-base)/1000, (i.ToNS-base)/1000, i.Stack-stacks[0]))
		}
	}
	if got, want := strings.Join(lane, ", "), "10000-12000 m0, 12000-16000 m1, 16000-20000 m2"; got != want {
		t.Errorf("the lock: %s, not %s", got, want)
	}
}
