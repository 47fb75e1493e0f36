package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// columns are those of the table.
func (p *topPage) columns() []column[*topRow] {
	weight := func(by topOrder) column[*topRow] {
		text := func(r *topRow, sc *scene) (string, canvas.Style) {
			t, of := &sc.Theme, p.total[0]+p.total[1]
			if by == byBlame {
				of = p.blame
			}
			s, st := style.Share(r.weight(by), of), t.Plain()
			switch {
			case s <= 0:
				st = t.Faded()
			case topOrder(p.table.by) == by:
				st = t.Bold()
			case by == byBlame:
				st = canvas.Style{FG: t.Readable(t.States[gvl.Waiting])}
			}
			return sharePoints(s), st
		}
		return column[*topRow]{title: string(by), width: wide(7), right: true, order: string(by), compare: heavier(by), text: text}
	}
	bar := func(screen int) int {
		if screen < wideWidth {
			return 9
		}
		return screen/6 + 1
	}
	return []column[*topRow]{weight(bySelf), weight(byTotal), weight(byBlame),
		{title: "before", width: p.ifCompared(8), right: true, text: p.beforeText}, {title: "change", width: p.ifCompared(7), right: true, text: p.changeText},
		{width: wide(1), text: p.trendText}, {width: bar, draw: p.drawWeight}, {width: wide(rest), draw: p.drawName}}
}

// ifCompared is a width that a column has while the rows are compared with another recording.
func (p *topPage) ifCompared(n int) func(int) int {
	return func(int) int {
		if p.was == nil {
			return 0
		}
		return n
	}
}

// shares are the parts that a row has of all there is now, in the order chosen, now and in the other recording.
func (p *topPage) shares(r *topRow) (now, before float64) {
	by, of := topOrder(p.table.by), p.total[0]+p.total[1]
	if by == byBlame {
		of = p.blame
	}
	return style.Share(r.weight(by), of), style.Share(p.was[r.name()].weight(by), of)
}

func (p *topPage) beforeText(r *topRow, sc *scene) (string, canvas.Style) {
	_, before := p.shares(r)
	if before <= 0 {
		return "–", sc.Theme.Faded()
	}
	return sharePoints(before), sc.Theme.Plain()
}

func (p *topPage) changeText(r *topRow, sc *scene) (string, canvas.Style) {
	now, before := p.shares(r)
	st := sc.Theme.Dimmed()
	switch text := points(now - before); {
	case text == points(0):
	case now > before:
		st = canvas.Style{FG: sc.Theme.Readable(canvas.RGB(style.OkabeVermilion)), Attr: canvas.Bold}
	default:
		st = canvas.Style{FG: sc.Theme.Readable(canvas.RGB(style.OkabeSkyBlue)), Attr: canvas.Bold}
	}
	return points(now - before), st
}

func (p *topPage) draw(a canvas.Area, sc *scene) {
	t := &sc.Theme
	widths := p.table.fit(a.W, sc)
	x := a.W - p.table.right - widths[len(widths)-1] // the kinds stand over the names
	for k, s := range topKindNames {
		st := t.Dimmed()
		if topKind(k) == p.kind {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Underline}
		}
		from := x
		x = a.Put(x, 0, s, st)
		sc.onPress(a.Sub(from, 0, x-from, 1), func(h Host, _, _ int) tea.Cmd { p.turnTo(h, topKind(k)); return nil })
		x += 2
	}
	if why := p.nothing(sc); why != "" {
		p.table.drawHead(a.Row(0), sc)
		a.Put(3, 1+(a.H-1)/2, canvas.Cut(why, a.W-4), t.Dimmed())
	} else {
		p.table.draw(a, sc, true, func(Host, *topRow, int) tea.Cmd { return nil })
		if p.flame.metric == flamegraph.Allocations { // the rule above has no room for it on a narrow screen
			a.PutRight(0, " "+style.Uncertainty(p.alloc)+p.table.hidden(), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
		}
	}
}

func (p *topPage) trendText(r *topRow, sc *scene) (string, canvas.Style) {
	switch p.trend(r) {
	case +1:
		return "↑", canvas.Style{FG: sc.Theme.Crit, Attr: canvas.Bold}
	case -1:
		return "↓", canvas.Style{FG: sc.Theme.Good, Attr: canvas.Bold}
	}
	return "", canvas.Style{}
}

// drawWeight draws a bar as long as the row's weight, in the colour of where the code comes from. Its last column stays free.
func (p *topPage) drawWeight(a canvas.Area, r *topRow, sc *scene) {
	for i := range int(style.Share(r.weight(topOrder(p.table.by)), p.most)*float64(a.W-1) + 0.5) {
		a.Rune(i, 0, '▇', canvas.Style{FG: sc.Theme.Flame[r.from]})
	}
}

func (p *topPage) drawName(a canvas.Area, r *topRow, sc *scene) {
	if p.kind == topGems || p.kind == topFiles {
		a.Put(0, 0, canvas.CutLeft(r.label, a.W), sc.Theme.Plain())
		return
	}
	where := ""
	if r.file != "" {
		where = style.LineIn(r.file, r.line, r.uncertain)
	}
	drawFunction(a, r.label, where, sc.Theme.Plain(), &sc.Theme)
}

// drawFunction writes a function and where it is, as far as there is room.
func drawFunction(a canvas.Area, label, where string, st canvas.Style, t *style.Theme) {
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(label), max(a.W*6/10, a.W-canvas.Width(where)-2)), st)
	if room := a.W - x - 2; room > 6 {
		a.Put(x+2, 0, canvas.CutLeft(where, room), t.Dimmed())
	}
}

// sharePoints prints a share with one decimal: in a list by weight the order must be plain.
func sharePoints(s float64) string {
	switch {
	case s <= 0:
		return "–"
	case s < 0.0005:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", s*100)
}
