package exact

import "testing"

// TestCostText: the text is right even if the estimated cost of the probes is more than all CPU time that the process
// has used.
func TestCostText(t *testing.T) {
	for _, c := range []struct {
		cost, own int64
		want      string
	}{{64, 1000, "6.4 %"}, {1000, 1000, "100.0 %"}, {1001, 1000, "more than 100 %"}, {148_058_333, 0, "more than 100 %"}} {
		if got := CostText(c.cost, c.own); got != c.want {
			t.Errorf("a cost of %d ns beside %d ns of its own: %q, not %q", c.cost, c.own, got, c.want)
		}
	}
}
