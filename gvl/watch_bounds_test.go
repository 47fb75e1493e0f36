package gvl

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestAlarmsRestOnLowerBounds: at 30 Hz a thread with turns of 20 µs is found waiting in nearly every sample. No alarm takes its many
// waits for a long one; long waits raise one.
func TestAlarmsRestOnLowerBounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		turns    []int64
		counters int
		alarm    bool // in truth
	}{
		{"short", []int64{30 * ms, 20_000}, 1, false},
		{"short, counters seldom read", []int64{30 * ms, 20_000}, 8, false},
		{"two holders", []int64{40 * ms, 40 * ms, 20_000}, 1, false},
		{"long", []int64{300 * ms, 300 * ms}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newGVLWorld(c.turns...)
			p := procOf(sampler.EraSched)
			p.LockRate, p.StackRate = 30, 30
			watch := NewWatch(p, sampler.NewDictionary(), nil, 5*sec, conditions(t, "wait_p99>100ms", "wait_max>100ms"))
			verdicts, alarms := 0, 0
			for tick := 0; w.now < base+20*sec; tick++ {
				w.until(w.now + sec/60 + int64(tick*7919%1000)*sec/30_000)
				v, ok := watch.Feed(w.sample(tick%c.counters == 0))
				if !ok {
					continue
				}
				verdicts++
				if len(v.Causes) > 0 {
					alarms++
				}
				for _, x := range v.Causes {
					if !c.alarm {
						t.Errorf("%s; the longest wait took %d ms", x.Text, slices.Max(w.waits[len(c.turns)-1])/ms)
					}
				}
			}
			if verdicts < 10 || c.alarm && alarms == 0 {
				t.Errorf("%d verdicts, %d alarms", verdicts, alarms)
			}
		})
	}
}

// TestParkedAgesAreBounds: a parked thread that was given a CPU may have gone on and come back: its age is an upper bound. One that
// stands still has an age.
func TestParkedAgesAreBounds(t *testing.T) {
	for _, c := range []struct {
		moves bool
		want  Bound
	}{{true, AtMost}, {false, Exactly}} {
		class := NewClassifier(procOf(sampler.EraSched), nil)
		var ts ThreadState
		for i := range int64(100) {
			th := asleep(1, sampler.StoppedForever, sampler.BlockSleepForever)
			th.Blocked = sampler.Blocked{Kind: sampler.BlockJoin, Holder: 2, FD: -1}
			th.Kernel.CPUAtNS, th.Kernel.Turns = base+i*10*ms, 5
			if c.moves {
				th.Kernel.Turns += i / 30
			}
			x := sampleAt(base+i*10*ms, 0, th)
			ts = class.Classify(x)[0]
		}
		if got := ts.Lasted(); ts.State != Parked || got.Bound != c.want || got.NS < 900*ms {
			t.Errorf("moves %v: %s %s, want %s", c.moves, ts.State, got.Prose(), c.want)
		}
	}
}
