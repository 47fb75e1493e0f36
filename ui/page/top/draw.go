package top

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// columns are the columns of the table.
func (p *Page) columns() []widget.Column[*topRow] {
	weight := func(by widget.TopOrder) widget.Column[*topRow] {
		text := func(r *topRow, sc *scene.Scene) (string, canvas.Style) {
			t, of := &sc.Theme, p.Total[0]+p.Total[1]
			if by == widget.ByBlame {
				of = p.blame
			}
			s, st := style.Share(r.Weight(by), of), t.Plain()
			switch {
			case s <= 0:
				st = t.Faded()
			case widget.TopOrder(p.Table.By) == by:
				st = t.Bold()
			case by == widget.ByBlame:
				st = canvas.Style{FG: t.Readable(t.States[gvl.Waiting])}
			}
			return widget.SharePoints(s), st
		}
		return widget.Column[*topRow]{Title: string(by), Width: widget.Wide(7), Right: true, Order: string(by), Compare: heavier(by), Text: text}
	}
	bar := func(screen int) int {
		if screen < scene.WideWidth {
			return 9
		}
		return screen/6 + 1
	}
	return []widget.Column[*topRow]{weight(widget.BySelf), weight(widget.ByTotal), weight(widget.ByBlame),
		{Title: "before", Width: p.ifCompared(8), Right: true, Text: p.beforeText}, {Title: "change", Width: p.ifCompared(7), Right: true, Text: p.changeText},
		{Width: widget.Wide(1), Text: p.trendText}, {Width: bar, Draw: p.drawWeight}, {Width: widget.Wide(widget.Rest), Draw: p.drawName}}
}

// ifCompared returns the width of a column that exists only while the screen compares with another recording. During a
// comparison the width is n, and otherwise 0.
func (p *Page) ifCompared(n int) func(int) int {
	return func(int) int {
		if p.Was == nil {
			return 0
		}
		return n
	}
}

// shares returns the row's weight in this recording (now) and in the other recording (before). Both are shares of this
// recording's total, so that they can be compared.
func (p *Page) shares(r *topRow) (now, before float64) {
	by, of := widget.TopOrder(p.Table.By), p.Total[0]+p.Total[1]
	if by == widget.ByBlame {
		of = p.blame
	}
	return style.Share(r.Weight(by), of), style.Share(p.Was[r.Name()].weight(by), of)
}

func (p *Page) beforeText(r *topRow, sc *scene.Scene) (string, canvas.Style) {
	_, before := p.shares(r)
	if before <= 0 {
		return "–", sc.Theme.Faded()
	}
	return widget.SharePoints(before), sc.Theme.Plain()
}

func (p *Page) changeText(r *topRow, sc *scene.Scene) (string, canvas.Style) {
	now, before := p.shares(r)
	st := sc.Theme.Dimmed()
	switch text := widget.Points(now - before); {
	case text == widget.Points(0):
	case now > before:
		st = canvas.Style{FG: sc.Theme.Readable(canvas.RGB(style.OkabeVermilion)), Attr: canvas.Bold}
	default:
		st = canvas.Style{FG: sc.Theme.Readable(canvas.RGB(style.OkabeSkyBlue)), Attr: canvas.Bold}
	}
	return widget.Points(now - before), st
}

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	widths := p.Table.Fit(a.W, sc)
	// the names of the kinds (functions, lines, gems, files) are above the column of the rows' names
	x := a.W - p.Table.Right - widths[len(widths)-1]
	for k, s := range TopKindNames {
		st := t.Dimmed()
		if TopKind(k) == p.Kind {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Underline}
		}
		from := x
		x = a.Put(x, 0, s, st)
		sc.OnPress(a.Sub(from, 0, x-from, 1), func(h scene.Host, _, _ int) tea.Cmd { p.turnTo(h, TopKind(k)); return nil })
		x += 2
	}
	if why := p.nothing(sc); why != "" {
		p.Table.DrawHead(a.Row(0), sc)
		a.Put(3, 1+(a.H-1)/2, canvas.Cut(why, a.W-4), t.Dimmed())
	} else {
		p.Table.Draw(a, sc, true, func(scene.Host, *topRow, int) tea.Cmd { return nil })
		// on a narrow screen, the line above the view has no room for this text
		if p.Flame.Metric == flamegraph.Allocations {
			a.PutRight(0, " "+style.Uncertainty(p.Alloc)+p.Table.Hidden(), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
		}
	}
}

func (p *Page) trendText(r *topRow, sc *scene.Scene) (string, canvas.Style) {
	switch p.trend(r) {
	case +1:
		return "↑", canvas.Style{FG: sc.Theme.Crit, Attr: canvas.Bold}
	case -1:
		return "↓", canvas.Style{FG: sc.Theme.Good, Attr: canvas.Bold}
	}
	return "", canvas.Style{}
}

// drawWeight draws a bar for the row's weight, in the colour of the code's origin. It leaves the last column of the
// area free.
func (p *Page) drawWeight(a canvas.Area, r *topRow, sc *scene.Scene) {
	style.DrawBar(a.Sub(0, 0, a.W-1, 1), style.Share(r.Weight(widget.TopOrder(p.Table.By)), p.most), sc.Theme.Flame[r.from])
}

func (p *Page) drawName(a canvas.Area, r *topRow, sc *scene.Scene) {
	if p.Kind == TopGems || p.Kind == TopFiles {
		a.Put(0, 0, canvas.CutLeft(r.Label, a.W), sc.Theme.Plain())
		return
	}
	where := ""
	if r.File != "" {
		where = style.LineIn(r.File, r.Line, r.uncertain)
	}
	widget.DrawFunction(a, r.Label, where, sc.Theme.Plain(), &sc.Theme)
}
