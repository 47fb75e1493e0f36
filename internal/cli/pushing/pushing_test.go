package pushing

import (
	"testing"
	"time"
)

func TestFirstPeriodsLieApart(t *testing.T) {
	p := New(nil, nil, time.Minute, nil, "")
	seen := make(map[time.Duration]bool)
	for i := range 50 {
		d := p.firstPeriod()
		if d < 30*time.Second || d > time.Minute || i == 0 && d != time.Minute {
			t.Errorf("period %d is %v", i, d)
		}
		seen[d.Truncate(200*time.Millisecond)] = true
	}
	if len(seen) < 45 {
		t.Errorf("only %d different ones", len(seen))
	}
}

// TestAttachedBy: if the wall clock is set, the recorded time of an attach moves with it. Small differences between the
// clocks do not move it, so that each period still begins exactly at the end of the previous one.
func TestAttachedBy(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ set, want time.Duration }{
		{0, 0}, {maxClockError - 1, 0}, {1 - maxClockError, 0}, {time.Hour, time.Hour}, {-time.Hour, -time.Hour},
	} {
		const elapsed = 5 * time.Hour
		if got := attachedBy(at, at.Add(elapsed+c.set), elapsed); !got.Equal(at.Add(c.want)) {
			t.Errorf("after the clock was set by %v it is %v", c.set, got)
		}
	}
}
