package pace

import "testing"

// TestClockHasNoPeriod: the ticks of a Clock fall into all phases of a fixed period equally often. The period can be
// the kernel's tick (4 ms at HZ=250), or a program's own sleeps. A Clock with a fixed interval would stay in step with
// such a period, and always see the same moment of it.
func TestClockHasNoPeriod(t *testing.T) {
	const bins = 8
	for _, period := range []int64{1e6, 4e6, 10e6} {
		for _, depth := range []string{"lock", "stack"} {
			c := NewClock(100, 1000, 0)
			var seen [bins]int
			n := 0
			for now := int64(0); now < 200e9; {
				now = c.Next
				d, _ := c.Tick(now)
				c.Note(now, true)
				if depth == "stack" && d != 1 {
					continue
				}
				seen[now%period*bins/period]++
				n++
			}
			for bin, k := range seen {
				if share := float64(k) / float64(n); share < .8/bins || share > 1.2/bins {
					t.Errorf("%s ticks: %d of %d fall in eighth %d of %d ms", depth, k, n, bin, period/1e6)
				}
			}
		}
	}
}
