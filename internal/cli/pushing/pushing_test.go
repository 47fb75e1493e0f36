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
