package ui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// waitEdges are the edges of the histogram's columns, in ns: five a power of ten, from 1 µs to 10 s.
var waitEdges = waitEdgesOf()

// waitEdgesEach is how many columns a power of ten has, firstWaitEdge the lowest edge and waitDecades how many powers of ten follow.
const (
	waitEdgesEach = 5
	firstWaitEdge = int64(1e3)
	waitDecades   = 7
)

func waitEdgesOf() []int64 {
	steps := [waitEdgesEach]int64{100, 158, 251, 398, 631} // hundredths
	var out []int64
	for n, at := 0, firstWaitEdge; n < waitDecades; n, at = n+1, at*10 {
		for _, s := range steps {
			out = append(out, at*s/100)
		}
	}
	return append(out, firstWaitEdge*1e7)
}

// waitColumns are the columns of the list; exact: some of the waits have what only exact mode tells.
func waitColumns(exact bool) []column[*waitRow] {
	by := func(order string) func(x, y *waitRow) int {
		return func(x, y *waitRow) int { return waitOrders[order](&x.WaitEvent, &y.WaitEvent) }
	}
	columns := []column[*waitRow]{
		{title: "began", width: wide(12, wideWidth, 15), order: "start", compare: by("start"), text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			return sc.process.WallTime(w.FromNS()).Format(clockOf(&w.WaitEvent, sc.width)), sc.Theme.Dimmed()
		}},
		{title: "thread", width: wide(10, wideWidth, 16, 160, 22), order: "thread", compare: by("thread"), text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			return w.name, sc.Theme.Bold()
		}},
		{title: "length", width: wide(8), right: true, order: "length", compare: by("length"), text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			return w.Length().Duration(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Waiting]), Attr: canvas.Bold}
		}},
	}
	if exact {
		columns = append(columns, exactWaitColumns()...)
	}
	after, code := wide(8), wide(rest)
	if exact { // behind whom it waited needs the room
		after, code = wide(0, roomyWidth, 8), wide(0, roomyWidth, rest)
	}
	return append(columns,
		column[*waitRow]{title: "after", width: after, drop: 1, text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			if w.After == gvl.Unknown {
				return "–", sc.Theme.Dimmed()
			}
			return w.After.String(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[w.After])}
		}},
		column[*waitRow]{title: "waits in", width: code, least: 12, text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			if w.request != "" {
				return w.request + "  " + w.code, sc.Theme.Dimmed()
			}
			return w.code, sc.Theme.Dimmed()
		}})
}

// roomyWidth is from where on the list says what a thread was at, too, when it has the columns of exact waits.
const roomyWidth = 150

// exactWaitColumns are those of what only exact mode tells.
func exactWaitColumns() []column[*waitRow] {
	ns := func(of func(w *waitRow) int64) func(*waitRow, *scene) (string, canvas.Style) {
		return func(w *waitRow, sc *scene) (string, canvas.Style) {
			if !w.Exact {
				return "–", sc.Theme.Dimmed()
			}
			return units.Duration(of(w)), sc.Theme.Plain()
		}
	}
	by := func(order string) func(x, y *waitRow) int {
		return func(x, y *waitRow) int { return waitOrders[order](&x.WaitEvent, &y.WaitEvent) }
	}
	holder := func(name, code string, sc *scene) (string, canvas.Style) {
		switch {
		case name == "":
			return "–", sc.Theme.Dimmed()
		case code == "":
			return name, sc.Theme.Plain()
		}
		return name + "  " + code, sc.Theme.Plain()
	}
	return []column[*waitRow]{
		{title: "queue", width: wide(8), right: true, drop: 2, text: ns((*waitRow).QueueNS)},
		{title: "hand-over", short: "hand-o.", width: wide(8, wideWidth, 9), right: true, drop: 3, order: "hand-over", compare: by("hand-over"),
			text: ns(func(w *waitRow) int64 { return w.HandNS })},
		{title: "no CPU", width: wide(8), right: true, drop: 4, order: "no CPU", compare: by("no CPU"), text: ns(func(w *waitRow) int64 { return w.NoCPUNS })},
		{title: "behind, at first", short: "behind", width: wide(rest), least: 12, text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			return holder(w.firstName, w.firstIn, sc)
		}},
		{title: "and at the end", width: wide(0, wideWidth, rest), least: 12, text: func(w *waitRow, sc *scene) (string, canvas.Style) {
			if w.Last == w.First && w.Last != 0 {
				return "the same", sc.Theme.Dimmed()
			}
			return holder(w.lastName, w.lastIn, sc)
		}},
	}
}

// clockOf is the form of a moment on a screen of so many columns: as fine as it is known.
func clockOf(e *store.WaitEvent, screen int) string {
	switch {
	case !e.Exact:
		return "15:04:05.000"
	case screen >= wideWidth:
		return "15:04:05.000000"
	}
	return "04:05.000000"
}

func (p *waitsPage) draw(a canvas.Area, sc *scene) {
	t := &sc.Theme
	p.drawSums(a.Row(0), sc)
	bars := 2
	if a.H >= 24 {
		bars = 4
	}
	y := 1
	p.drawHistogram(a.Sub(0, y, a.W, bars+1), t)
	y += bars + 1
	chainH := min(max(a.H/3, 3), 12)
	i := p.table.index()
	if i < 0 {
		chainH = 0
	}
	list := a.Sub(0, y, a.W, a.H-y-chainH)
	if len(p.table.rows) == 0 {
		text := "no thread waited for the GVL in the time shown"
		if p.filtered {
			text = "no wait is listed: esc lists those of all threads"
		}
		list.Put(3, 1, canvas.Cut(text, a.W-4), t.Dimmed())
		return
	}
	p.table.draw(list, sc, true, func(h Host, _ *waitRow, _ int) tea.Cmd { return p.fetch(h) })
	if i >= 0 {
		p.drawChain(a.Sub(0, a.H-chainH, a.W, chainH), p.table.rows[i], sc)
	}
}

// drawSums says how long the waits were, and how well that is known.
func (p *waitsPage) drawSums(a canvas.Area, sc *scene) {
	t := &sc.Theme
	x := 1
	if p.kept > 0 {
		x = a.Put(x, 0, "longest "+p.longest.Duration(), t.Bold())
		x = a.Put(x, 0, "   "+units.Duration(p.sums.ns)+" in all", t.Plain())
	}
	if p.sums.exactNS > 0 {
		x = a.Put(x, 0, fmt.Sprintf("   hand-over %s   no CPU %s", units.FinePercent(style.Share(p.sums.handNS, p.sums.exactNS)), units.FinePercent(style.Share(p.sums.noCPUNS, p.sums.exactNS))), t.Plain())
	}
	var parts []string
	switch {
	case p.exact > 0 && p.exact == p.kept:
		parts = append(parts, "exact")
	case p.exact > 0:
		parts = append(parts, units.Count(p.exact)+" exact")
	case p.kept > 0:
		parts = append(parts, "by sampling: short ones can be missed")
	}
	if n := int64(len(p.table.rows)); n < p.all {
		which := "the first and the last"
		if sc.opt.WaitThreshold > 0 {
			which = units.Duration(int64(sc.opt.WaitThreshold)) + " or longer (--wait-threshold)"
		}
		parts = append(parts, fmt.Sprintf("%s listed: %s", units.Count(n), which))
	}
	if p.all > p.kept {
		parts = append(parts, units.Count(p.all-p.kept)+" not known one by one")
	}
	a.Put(x+3, 0, canvas.Cut(fitParts(strings.Join(parts, between), a.W-x-4), a.W-x-4), t.Dimmed())
}

// drawHistogram draws how many waits there were by length, on a scale of powers of ten. A count so small that its column would not be
// seen has the lowest there is.
func (p *waitsPage) drawHistogram(a canvas.Area, t *style.Theme) {
	const labelW = 8
	most := int64(1)
	for _, n := range p.counts {
		most = max(most, n)
	}
	a.Put(1, 0, canvas.PadLeft(units.Count(most), labelW-2), t.Dimmed())
	a.Put(1, a.H-1, canvas.PadLeft("length", labelW-2), t.Dimmed())
	each := max((a.W-labelW-1)/len(p.counts), 1) // screen columns a bucket has
	bars := a.Sub(labelW, 0, min(each*len(p.counts), a.W-labelW), a.H-1)
	st := canvas.Style{FG: t.Readable(t.States[gvl.Waiting])}
	for i, n := range p.counts {
		for x := i * each; x < (i+1)*each-min(each-1, 1) && x < bars.W; x++ {
			if n > 0 {
				style.DrawColumn(bars, x, max(style.Share(n, most), 1/float64(8*bars.H)), st)
			}
		}
	}
	end := 0
	for i := 0; i < len(waitEdges); i += waitEdgesEach {
		x, label := labelW+(i+1)*each, units.ProseDuration(waitEdges[i])
		if x > end && x+canvas.Width(label) < a.W {
			end = a.Put(x, a.H-1, label, t.Dimmed())
		}
	}
}

// drawChain tells the selected wait in a sentence, and in rows who held the GVL during it.
func (p *waitsPage) drawChain(a canvas.Area, w *waitRow, sc *scene) {
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	a.Put(1, 0, canvas.Cut(" the selected wait ", a.W-2), t.Bold())
	rows := a.Sub(0, 1, a.W, a.H-1)
	switch c := &p.chain; {
	case c.Of != w.id():
		rows.Put(1, 0, "reading …", t.Dimmed())
	case c.Err != nil:
		rows.Put(1, 0, canvas.Cut(sc.showable("who held the GVL can't be told: "+c.Err.Error()), a.W-2), canvas.Style{FG: t.Crit})
	default:
		lines, _ := style.Wrap(chainSentence(c, w, sc), a.W-2, 2)
		for y, s := range lines {
			rows.Put(1, y, s, t.Plain())
		}
		p.drawParts(rows.Sub(0, len(lines), a.W, rows.H-len(lines)), sc)
	}
}

// drawParts draws a row for each holder, as many as there is room for.
func (p *waitsPage) drawParts(a canvas.Area, sc *scene) {
	const barW, nsW = 20, 9
	t := &sc.Theme
	parts := chainParts(&p.chain, sc)
	for y, x := range parts[:min(len(parts), max(a.H, 0))] {
		if y == a.H-1 && len(parts) > a.H {
			a.Put(1, y, canvas.Cut(fmt.Sprintf("%d more", len(parts)-y), a.W-2), t.Dimmed())
			return
		}
		color := t.Text
		if x.state != gvl.Unknown {
			color = t.States[x.state]
		}
		a.Put(1, y, canvas.PadLeft(units.Duration(x.ns), nsW-1), t.Bold())
		for i := range min(int(style.Share(x.ns, p.chain.LenNS)*barW+0.5), barW) {
			a.Rune(1+nsW+i, y, '▇', canvas.Style{FG: color})
		}
		a.Put(2+nsW+barW, y, canvas.Cut(x.what, a.W-3-nsW-barW), t.Plain())
	}
}
