package measure

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestAlarmsRestOnLowerBounds: a thread gets the GVL for 20 µs again and again. At 30 Hz, nearly every sample finds it
// waiting, so its many short waits look like a long one. They must raise no alarm. A wait that is really long must
// raise one.
func TestAlarmsRestOnLowerBounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		turns    []int64
		counters int
		alarm    bool // whether there is a reason for an alarm
	}{
		{"short", []int64{30 * gvltest.MS, 20_000}, 1, false},
		{"short, counters seldom read", []int64{30 * gvltest.MS, 20_000}, 8, false},
		{"two holders", []int64{40 * gvltest.MS, 40 * gvltest.MS, 20_000}, 1, false},
		{"long", []int64{300 * gvltest.MS, 300 * gvltest.MS}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := gvltest.NewGVLWorld(c.turns...)
			p := gvltest.ProcOf(sampler.EraSched)
			p.LockRate, p.StackRate = 30, 30
			watch := NewWatch(p, sampler.NewDictionary(), nil, 5*gvltest.Sec, conditions(t, "wait_p99>100ms", "wait_max>100ms"))
			verdicts, alarms := 0, 0
			for tick := 0; w.Now < gvltest.Base+20*gvltest.Sec; tick++ {
				w.Until(w.Now + gvltest.Sec/60 + int64(tick*7919%1000)*gvltest.Sec/30_000)
				v, ok := watch.Feed(w.Sample(tick%c.counters == 0))
				if !ok {
					continue
				}
				verdicts++
				if len(v.Causes) > 0 {
					alarms++
				}
				for _, x := range v.Causes {
					if !c.alarm {
						t.Errorf("%s; the longest wait took %d ms", x.Text, slices.Max(w.Waits[len(c.turns)-1])/gvltest.MS)
					}
				}
			}
			if verdicts < 10 || c.alarm && alarms == 0 {
				t.Errorf("%d verdicts, %d alarms", verdicts, alarms)
			}
		})
	}
}

// TestParkedAgesAreBounds: if a parked thread got a CPU between two samples, it may have gone on and parked again. So
// the age of its state is an upper bound. If it got no CPU, the age is exact.
func TestParkedAgesAreBounds(t *testing.T) {
	for _, c := range []struct {
		moves bool
		want  gvl.Bound
	}{{true, gvl.AtMost}, {false, gvl.Exactly}} {
		class := gvl.NewClassifier(gvltest.ProcOf(sampler.EraSched), nil)
		var ts gvl.ThreadState
		for i := range int64(100) {
			th := gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockSleepForever)
			th.Blocked = sampler.Blocked{Kind: sampler.BlockJoin, Holder: 2, FD: -1}
			th.Kernel.CPUAtNS, th.Kernel.Turns = gvltest.Base+i*10*gvltest.MS, 5
			if c.moves {
				th.Kernel.Turns += i / 30
			}
			x := gvltest.SampleAt(gvltest.Base+i*10*gvltest.MS, 0, th)
			ts = class.Classify(x)[0]
		}
		if got := ts.Lasted(); ts.State != gvl.Parked || got.Bound != c.want || got.NS < 900*gvltest.MS {
			t.Errorf("moves %v: %s %s, want %s", c.moves, ts.State, got.Prose(), c.want)
		}
	}
}
