package widget

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// quietShare is the share of a column below which the GVL lane shows it as free.
const quietShare = 0.1

func (v *Timeline) drawLane(a canvas.Area, l *lane, t *style.Theme, g *scene.Regions) {
	a.Put(1, 0, canvas.Cut(l.label, g.NameW-1), t.Dimmed())
	if n := len(l.cells); n > 0 {
		v.drawHolder(a.Sub(g.NameW+1, 0, g.NowW, 1), l, t)
	}
	cells := a.Sub(g.CellsX, 0, g.CellsW, 1)
	var held, sampled int64
	for i := range l.cells {
		held += l.cells[i].HeldNS
		sampled += l.cells[i].SampledNS
	}
	for x := range cells.W {
		i := CellAt(x, len(l.cells), cells.W)
		if i < 0 {
			continue
		}
		c := &l.cells[i]
		if style.Share(c.HeldNS, c.SampledNS) < quietShare { // mostly free: not a thread's number, which would look like use
			if c.SampledNS > 0 {
				cells.Rune(x, 0, '·', t.Faded())
			}
			continue
		}
		full := t.Owner(l.owner[i])
		if c.GCNS*2 > c.HeldNS {
			cells.Rune(x, 0, 'G', style.On(t.States[gvl.GC]))
			continue
		}
		ground := t.Shade(full, LaneStrength(style.InSteps(min(style.Share(c.HeldByOwnerNS, c.SampledNS), 1))))
		// One colour of digits for a thread, as far as it can be read.
		cells.Rune(x, 0, identRune(l.owner[i]), canvas.Style{FG: style.MixUntil(style.On(full).FG, style.On(ground).FG, ground, style.Graphic), BG: ground})
	}
	if g.SharesW > 0 {
		a.Put(a.W-g.SharesW, 0, fmt.Sprintf("%3s %% held", units.WholePercent(style.Share(held, sampled))), t.Dimmed())
	}
}

// LaneStrength is how strong the colour of a thread is that held the GVL for a share of a column.
func LaneStrength(share float64) float64 { return 0.3 + 0.7*share }

// drawHolder names the thread of the ractor that held the GVL longest in the time shown, and the share of the time.
func (v *Timeline) drawHolder(a canvas.Area, l *lane, t *style.Theme) {
	var total int64
	for i := range l.cells {
		total += l.cells[i].SampledNS
	}
	by := make(map[sampler.ThreadID]int64)
	if l.Own {
		for i := range l.cells {
			by[l.cells[i].Owner] += l.cells[i].HeldByOwnerNS
		}
	}
	best, most := -1, int64(0)
	for i := range v.Threads {
		th := &v.Threads[i]
		held := th.Totals[gvl.Running] + th.Totals[gvl.Stalled] + th.Totals[gvl.GC]
		if l.Own {
			held = by[th.ID]
		}
		if th.Ractor == l.ractor && held > most {
			best, most = i, held
		}
	}
	if best < 0 {
		a.Put(0, 0, "nobody", t.Dimmed())
		return
	}
	x := 0
	if ident := v.Idents.Of[v.Threads[best].ID]; ident > 0 {
		x = a.Put(0, 0, string(identRune(ident)), canvas.Style{FG: t.Readable(t.Owner(ident)), Attr: canvas.Bold})
		x = a.Put(x, 0, " = ", t.Dimmed()) // which says what the numbers before names are, too
	}
	held := " " + units.Percent(style.Share(most, total))
	a.Put(x, 0, canvas.Cut(v.Threads[best].Name, a.W-x-canvas.Width(held))+held, t.Dimmed())
}
