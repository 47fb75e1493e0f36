package style

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// TestCellsStayAsTheyAreWhileThePictureMoves: when the picture moves by one cell, the cells must keep their shades.
// Only the cells before the first whole run (shadeRun) may change. Each cell's shade is at most one step away from its
// exact shade.
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

// TestCellsShowHowLongAThreadRan: in a cell's time the thread ran, but its main state was another one. The cell must
// then show a block as high as the share of running, in the colour of running. Without colours, or if the thread waited
// longer than it ran, the letter of the main state stays.
func TestCellsShowHowLongAThreadRan(t *testing.T) {
	theme := darkTheme()
	cell := func(s gvl.State, running, waiting int64) *timeline.Cell {
		c := timeline.Cell{Dominant: s, Share: .5, SpanNS: 100}
		c.NS[gvl.Running], c.NS[gvl.Waiting] = running, waiting
		c.NS[s] += 100 - running - waiting
		return &c
	}
	for _, x := range []struct {
		state            gvl.State
		running, waiting int64
		want             rune
	}{
		{gvl.Waiting, 21, 0, '▂'}, {gvl.Waiting, 38, 0, '▃'}, {gvl.Waiting, 5, 0, 'w'}, {gvl.IO, 25, 0, '▂'}, {gvl.IO, 15, 30, 'i'}, {gvl.Parked, 45, 0, '▄'},
	} {
		r, st := theme.StateCell(cell(x.state, x.running, x.waiting), false, nil)
		if r != x.want || r != rune(x.state.Letter()) && (st.FG != theme.States[gvl.Running] || st.BG == theme.States[gvl.Running]) {
			t.Errorf("%v with %d %% running, %d %% waiting is %c in %v", x.state, x.running, x.waiting, r, st)
		}
	}
	plain := theme
	plain.Letters = true
	if r, _ := plain.StateCell(cell(gvl.Waiting, 21, 0), false, nil); r != 'w' {
		t.Errorf("without colours it is %c", r)
	}
}
