package stream

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestReachWhileRatesAreLowered: at the requested rates, half a second between two samples is a gap, in which states
// are unknown. If a budget had lowered the rates at one of the two samples, it is no gap. More than a second is always
// a gap.
func TestReachWhileRatesAreLowered(t *testing.T) {
	p := sampler.Process{StackRate: 100, LockRate: 1000}
	for _, c := range []struct {
		ns            int64
		before, after bool
		gap           bool
	}{
		{5e8, false, false, true},
		{5e8, true, false, false},
		{5e8, false, true, false},
		{5e8, true, true, false},
		{11e8, true, true, true},
	} {
		st := newStepper(p)
		a, b := sampler.Sample{TimeNS: 1e9}, sampler.Sample{TimeNS: 1e9 + c.ns}
		a.Self.Lowered, b.Self.Lowered = c.before, c.after
		st.next(&a)
		if got := st.next(&b); got.gap != c.gap {
			t.Errorf("%d ms, lowered %v and %v: a gap is %v", c.ns/1e6, c.before, c.after, got.gap)
		}
		if back := st.reach.BackNS; (c.before || c.after) != (back == lowBackNS) {
			t.Errorf("lowered %v and %v: an answer reaches %d ms back", c.before, c.after, back/1e6)
		}
	}
}
