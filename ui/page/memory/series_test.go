package memory

import (
	"testing"

	"github.com/ddtop/ddtop/internal/units"
)

// TestACurveHasAScale: if a level grows by a quarter, its curve uses all its rows. If the level has only small random
// changes, the curve must not use all its rows. The scale of a rate begins at zero.
func TestACurveHasAScale(t *testing.T) {
	bytes := func(n float64) string { return units.Bytes(int64(n)) }
	for _, x := range []struct {
		name      string
		s         series
		low, top  string
		least     float64
		from, to  float64 // position of the first and the last value on the scale, from 0 to 1
		tolerance float64
	}{
		{"growth", series{level: true, unit: bytes, values: []float64{-1, 400e6, 450e6, 500e6}}, "400", "500 MB", 1, 0, 1, 0},
		{"noise", series{level: true, unit: bytes, values: []float64{-1, 100e6, 100.1e6}}, "95", "105 MB", 1, .5, .5, .02},
		{"rate", series{unit: units.Percent, values: []float64{-1, .2, .5}}, "0", "50 %", .1, .4, 1, 0},
		{"small rate", series{unit: units.Percent, values: []float64{-1, 0, .05}}, "0", "10 %", .1, 0, .5, 0},
	} {
		x.s.fit(x.least)
		if low, top := x.s.scale(); low != x.low || top != x.top {
			t.Errorf("%s: from %q to %q", x.name, low, top)
		}
		at := func(i int) float64 { return (x.s.values[i] - x.s.low) / (x.s.top - x.s.low) }
		from, to := at(1), at(len(x.s.values)-1)
		if from < x.from-x.tolerance || from > x.from+x.tolerance || to < x.to-x.tolerance || to > x.to+x.tolerance {
			t.Errorf("%s: the curve goes from %.2f to %.2f", x.name, from, to)
		}
	}
}

// TestLevelsGetRowsFirst: each series gets at least one row of the screen. Levels, such as the curves of memory, get
// the other rows before rates do.
func TestLevelsGetRowsFirst(t *testing.T) {
	p := Page{series: []series{{level: true}, {level: true}, {}, {}}}
	for free, want := range map[int][4]int{-2: {1, 1, 1, 1}, 1: {2, 1, 1, 1}, 4: {3, 3, 1, 1}, 5: {3, 3, 2, 1},
		7: {4, 3, 2, 2}, 99: {8, 8, 2, 2}} {
		if got := p.heights(free); [4]int(got) != want {
			t.Errorf("%d free rows: %v", free, got)
		}
	}
}
