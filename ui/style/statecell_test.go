package style

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// TestCellsStayAsTheyAreWhileThePictureMoves: the shade of a cell is less than a step from its own, and of two pictures
// one cell apart only what lies before the first run of the second may differ, which is not carried on.
func TestCellsStayAsTheyAreWhileThePictureMoves(t *testing.T) {
	theme := darkTheme()
	rng := rand.New(rand.NewPCG(1, 2))
	cells := make([]timeline.Cell, 6*shadeRun)
	for i := range cells {
		c := timeline.Cell{Dominant: []gvl.State{gvl.Waiting, gvl.IO}[rng.IntN(2)], Share: leastDominant + rng.Float64()*(1-leastDominant), SpanNS: 100}
		c.NS[c.Dominant] = 100
		if c.Dominant == gvl.IO {
			c.NS[gvl.Waiting] = rng.Int64N(30)
		}
		cells[i] = c
	}
	const eachNS = int64(300e6)
	draw := func(first int) []canvas.Style {
		out := make([]canvas.Style, len(cells))
		beside := NewShades()
		for i := first; i < len(cells); i++ {
			beside.GoTo(i-first, int64(first)*eachNS, eachNS)
			_, out[i] = theme.StateCell(&cells[i], false, beside)
		}
		return out
	}
	spots := func(looks []canvas.Style) (n int) {
		for i := 1; i < len(looks); i++ {
			if cells[i].Dominant == cells[i-1].Dominant && looks[i].BG != looks[i-1].BG {
				n++
			}
		}
		return n
	}
	alone := make([]canvas.Style, len(cells))
	for i := range cells {
		_, alone[i] = theme.StateCell(&cells[i], false, nil)
	}
	last := draw(0)
	if carried, own := spots(last), spots(alone); carried >= own {
		t.Errorf("%d changes of the ground, %d without looking at the cell beside", carried, own)
	}
	for first := 1; first < len(cells)-shadeRun; first++ {
		looks := draw(first)
		run := (first + shadeRun - 1) / shadeRun * shadeRun
		for i := first; i < len(cells); i++ {
			if i >= run && looks[i] != last[i] || i < run && looks[i] != alone[i] {
				t.Fatalf("from cell %d on, cell %d is %v, was %v, alone %v", first, i, looks[i], last[i], alone[i])
			}
		}
		last = looks
	}
	full := theme.States[gvl.Waiting]
	step := 1.0 / ShadeSteps
	for i, st := range draw(0) {
		if cells[i].Dominant != gvl.Waiting {
			continue
		}
		exact := math.Pow((cells[i].Share-leastDominant)/(1-leastDominant), 0.8)
		near := false
		for s := 0.0; s <= 1; s += step {
			near = near || math.Abs(s-exact) <= step && theme.Shade(full, theme.Weakest+(1-theme.Weakest)*s) == st.BG
		}
		if !near {
			t.Errorf("cell %d of strength %.2f is %s", i, exact, st.BG.Hex())
		}
	}
}
