package top

import (
	"testing"
)

func TestTopTrend(t *testing.T) {
	p := &Page{Total: [2]int64{300, 100}}
	for _, c := range []struct {
		before, now int64
		want        int
	}{{30, 10, 0}, {30, 15, +1}, {30, 5, -1}, {0, 1, 0}, {0, 5, +1}, {300, 100, 0}} {
		if got := p.trend(&topRow{self: [2]int64{c.before, c.now}}); got != c.want {
			t.Errorf("%d of 300, then %d of 100: %d, want %d", c.before, c.now, got, c.want)
		}
	}
	p.Total[1] = 0
	if p.trend(&topRow{self: [2]int64{30, 0}}) != 0 {
		t.Error("a trend without recent time")
	}
}
