package switches

import (
	"math"
	"testing"

	"github.com/ddtop/ddtop/sampler/exact"
)

// TestQueuedByOthers: one thread has the GVL for 4 ms, puts a sleeping thread into the queue in the meantime, and then
// gives it the GVL. Few clock ticks come, so no record shows when the thread was put there. Some ticks come before this
// moment, and some after it. From all of them, ddtop must learn for how long the thread waits.
func TestQueuedByOthers(t *testing.T) {
	const cycle, held, learned, cycles = 5000, 4000, 500, 2000 // times in µs
	for _, put := range []int64{5, 1000, 2000, 3900} {
		k := told{tid: tid2}
		waited := int64(0)
		m := NewMachine(exact.NewMachine(func(c *exact.Change) {
			if c.TID == tid2 && k.doing == "waiting" && c.AtNS > learned*cycle*us {
				waited += c.AtNS - k.fromNS
			}
			k.changed(c)
		}))
		for i := range int64(cycles) {
			at := i * cycle
			_, part := math.Modf(float64(i) * math.Phi) // the fractional parts of these numbers are spread evenly
			if tick := int64(2 * held * part); tick < held && tick > 10 {
				r := out(tid1, at, at+tick, with(holds, computes, func(r *Record) { r.Kind = Clock }))
				if tick > put {
					r.Joined[0] = two
				}
				m.Feed(&r)
			}
			gives := out(tid1, at, at+held, func(r *Record) { r.GaveNS = (at + held - 10) * us })
			m.Feed(&gives)
			gets := out(tid2, at+held, at+held+100, func(r *Record) { r.WokenNS, r.WakerOwner = (at+held-10)*us, two })
			m.Feed(&gets)
			m.Advance((at + held + 200) * us)
		}
		got, want := float64(waited)/float64((cycles-learned)*cycle*us), float64(held-put)/cycle
		if math.Abs(got-want) > 0.02 {
			t.Errorf("put into the queue after %d µs: it waits %.3f of the time, want %.3f", put, got, want)
		}
	}
}
