package waits

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// waitEdges are the limits between the columns of the histogram of waits. They are lengths in ns, from 1 µs to 10 s,
// with five limits per power of ten.
var waitEdges = waitEdgesOf()

// waitEdgesEach is the number of the histogram's columns per power of ten. firstWaitEdge is the lowest length, in ns.
// waitDecades is the number of powers of ten.
const (
	waitEdgesEach = 5
	firstWaitEdge = int64(1e3)
	waitDecades   = 7
)

func waitEdgesOf() []int64 {
	steps := [waitEdgesEach]int64{100, 158, 251, 398, 631} // the limits within one power of ten, in hundredths
	var out []int64
	for n, at := 0, firstWaitEdge; n < waitDecades; n, at = n+1, at*10 {
		for _, s := range steps {
			out = append(out, at*s/100)
		}
	}
	return append(out, firstWaitEdge*1e7)
}

// waitColumns returns the columns of the list of waits. If exact is set, they include details that only exact mode
// knows.
func waitColumns(exact bool) []widget.Column[*WaitRow] {
	by := func(order string) func(x, y *WaitRow) int {
		return func(x, y *WaitRow) int { return WaitOrders[order](&x.WaitEvent, &y.WaitEvent) }
	}
	columns := []widget.Column[*WaitRow]{
		{Title: "began", Width: widget.Wide(12, scene.WideWidth, 15), Order: "start", Compare: by("start"), Text: func(w *WaitRow, sc *scene.Scene) (string, canvas.Style) {
			return sc.Process.WallTime(w.FromNS()).Format(widget.ClockOf(&w.WaitEvent, sc.Width)), sc.Theme.Dimmed()
		}},
		{Title: "thread", Width: widget.Wide(10, scene.WideWidth, 16, 160, 22), Tail: true, Order: "thread", Compare: by("thread"), Text: func(w *WaitRow, sc *scene.Scene) (string, canvas.Style) {
			return w.Name, sc.Theme.Bold()
		}},
		{Title: "length", Width: widget.Wide(8), Right: true, Order: "length", Compare: by("length"), Text: func(w *WaitRow, sc *scene.Scene) (string, canvas.Style) {
			return w.Length().Duration(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Waiting]), Attr: canvas.Bold}
		}},
	}
	if exact {
		columns = append(columns, exactWaitColumns()...)
	}
	after, code := widget.Wide(8), widget.Wide(widget.Rest)
	if exact { // the columns of exact mode need the room
		after, code = widget.Wide(0, roomyWidth, 8), widget.Wide(0, roomyWidth, widget.Rest)
	}
	return append(columns,
		widget.Column[*WaitRow]{Title: "after", Width: after, Drop: 1, Text: func(w *WaitRow, sc *scene.Scene) (string, canvas.Style) {
			if w.After == gvl.Unknown {
				return "–", sc.Theme.Dimmed()
			}
			return w.After.String(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[w.After])}
		}},
		widget.Column[*WaitRow]{Title: "waits in", Width: code, Least: 12, Draw: func(a canvas.Area, w *WaitRow, sc *scene.Scene) {
			drawCode(a, w.Request, w.Code, sc.Theme.Dimmed(), canvas.Cut)
		}})
}

// leastCode is the least width, in columns, that drawCode keeps free for the code. To keep it free, drawCode shortens
// the text before the code (lead).
const leastCode = 10

// drawCode draws lead, which is a request or a thread, and after it the code. If a method's name does not fit, drawCode
// cuts off its class first.
func drawCode(a canvas.Area, lead, code string, st canvas.Style, cut func(string, int) string) {
	x := 0
	if lead != "" {
		room := a.W
		if code != "" && a.W >= 2*leastCode+2 {
			room = max(a.W-2-canvas.Width(code), a.W-2-max(a.W/2, leastCode))
		}
		x = a.Put(0, 0, cut(lead, room), st) + 2
	}
	room := a.W - x
	if room < min(leastCode, canvas.Width(code)) {
		return
	}
	label, where, found := strings.Cut(code, "  ")
	if found && canvas.Width(label)+2+canvas.Width(where) <= room {
		a.Put(x, 0, code, st)
		return
	}
	a.Put(x, 0, flamegraph.LabelFit(label, room), st)
}

// roomyWidth is the least width of a screen that shows the columns "after" and "waits in". These exist only in exact
// mode.
const roomyWidth = 150

// exactWaitColumns returns the columns that the list has only in exact mode.
func exactWaitColumns() []widget.Column[*WaitRow] {
	ns := func(of func(w *WaitRow) int64) func(*WaitRow, *scene.Scene) (string, canvas.Style) {
		return func(w *WaitRow, sc *scene.Scene) (string, canvas.Style) {
			if !w.Exact {
				return "–", sc.Theme.Dimmed()
			}
			return units.Duration(of(w)), sc.Theme.Plain()
		}
	}
	by := func(order string) func(x, y *WaitRow) int {
		return func(x, y *WaitRow) int { return WaitOrders[order](&x.WaitEvent, &y.WaitEvent) }
	}
	holder := func(a canvas.Area, name, code string, sc *scene.Scene) {
		if name == "" {
			a.Put(0, 0, "–", sc.Theme.Dimmed())
			return
		}
		drawCode(a, name, code, sc.Theme.Plain(), canvas.CutName)
	}
	return []widget.Column[*WaitRow]{
		{Title: "queue", Width: widget.Wide(8), Right: true, Drop: 2, Text: ns((*WaitRow).QueueNS)},
		{Title: "hand-over", Short: "hand-o.", Width: widget.Wide(8, scene.WideWidth, 9), Right: true, Drop: 3, Order: "hand-over", Compare: by("hand-over"),
			Text: ns(func(w *WaitRow) int64 { return w.HandNS })},
		{Title: "no CPU", Width: widget.Wide(8), Right: true, Drop: 4, Order: "no CPU", Compare: by("no CPU"), Text: ns(func(w *WaitRow) int64 { return w.NoCPUNS })},
		{Title: "behind, at first", Short: "behind", Width: widget.Wide(widget.Rest), Least: 12, Draw: func(a canvas.Area, w *WaitRow, sc *scene.Scene) { holder(a, w.firstName, w.firstIn, sc) }},
		{Title: "and at the end", Width: widget.Wide(0, scene.WideWidth, widget.Rest), Least: 12, Draw: func(a canvas.Area, w *WaitRow, sc *scene.Scene) {
			if w.Last == w.First && w.Last != 0 {
				a.Put(0, 0, "the same", sc.Theme.Dimmed())
				return
			}
			holder(a, w.lastName, w.lastIn, sc)
		}},
	}
}

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	p.drawSums(a.Row(0), sc)
	bars := 2
	if a.H >= 24 {
		bars = 4
	}
	y := 1
	if len(p.Table.Rows) > 0 && sc.Figures.Enough(sampler.FigureWaits) {
		p.drawHistogram(a.Sub(0, y, a.W, bars+1), t)
		y += bars + 1
	}
	chainH := min(max(a.H/3, 3), 12)
	i := p.Table.Index()
	if i < 0 {
		chainH = 0
	}
	list := a.Sub(0, y, a.W, a.H-y-chainH)
	if len(p.Table.Rows) == 0 {
		text := "no thread waited for the GVL in the time shown"
		if p.filtered {
			text = "no wait of this thread or search   esc lists the waits of all threads"
		}
		list.Put(3, 1, canvas.Cut(text, a.W-4), t.Dimmed())
		return
	}
	p.Table.Draw(list, sc, true, func(h scene.Host, _ *WaitRow, _ int) tea.Cmd { return p.Fetch(h) })
	if i >= 0 {
		p.drawChain(a.Sub(0, a.H-chainH, a.W, chainH), p.Table.Rows[i], sc)
	}
}

// drawSums draws a line with the sum of all waits and the longest wait. The line also says how exact these two figures
// are.
func (p *Page) drawSums(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	if why := sc.Figures.Why(sampler.FigureWaits); why != "" {
		a.Put(1, 0, canvas.Cut(why, a.W-2), t.Dimmed())
		return
	}
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
	if n := int64(len(p.Table.Rows)); n < p.All {
		which := "the first by this order, and the latest"
		if p.Table.By == "length" && !p.Table.Reverse {
			which = "the longest and the latest"
		}
		if sc.Opt.WaitThreshold > 0 {
			which = units.Duration(int64(sc.Opt.WaitThreshold)) + " or longer (--wait-threshold)"
		}
		parts = append(parts, fmt.Sprintf("%s listed: %s", units.Count(n), which))
	}
	if p.All > p.kept {
		parts = append(parts, units.Count(p.All-p.kept)+" only counted")
	}
	a.Put(x+3, 0, canvas.Cut(style.FitParts(strings.Join(parts, style.Between), a.W-x-4), a.W-x-4), t.Dimmed())
}

// drawHistogram draws how many waits there are of each length, on a logarithmic scale of lengths. A column with a
// single wait must be visible, too.
func (p *Page) drawHistogram(a canvas.Area, t *style.Theme) {
	const labelW = 8
	most := int64(0)
	for _, n := range p.Counts {
		most = max(most, n)
	}
	if most == 0 {
		return // draw nothing, because the list already says that there are no waits
	}
	a.Put(1, 0, canvas.PadLeft(units.Count(most), labelW-2), t.Dimmed())
	a.Put(1, a.H-1, canvas.PadLeft("length", labelW-2), t.Dimmed())
	each := max((a.W-labelW-1)/len(p.Counts), 1) // screen columns for each count
	bars := a.Sub(labelW, 0, min(each*len(p.Counts), a.W-labelW), a.H-1)
	st := canvas.Style{FG: t.Readable(t.States[gvl.Waiting])}
	for i, n := range p.Counts {
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

// drawChain draws a sentence about the selected wait, and a list of the threads that held the GVL during it.
func (p *Page) drawChain(a canvas.Area, w *WaitRow, sc *scene.Scene) {
	t := &sc.Theme
	t.Heading(a, " the selected wait ")
	rows := a.Sub(0, 1, a.W, a.H-1)
	switch c := &p.chain; {
	case c.Of != w.ID():
		rows.Put(1, 0, "reading …", t.Dimmed())
	case c.Err != nil:
		rows.Put(1, 0, canvas.Cut(sc.Showable("cannot read who held the GVL: "+c.Err.Error()), a.W-2), canvas.Style{FG: t.Crit})
	default:
		lines, _ := style.Wrap(chainSentence(c, w, sc), a.W-2, 2)
		for y, s := range lines {
			rows.Put(1, y, s, t.Plain())
		}
		p.drawParts(rows.Sub(0, len(lines), a.W, rows.H-len(lines)), sc)
	}
}

// drawParts draws one row for each part of the wait's time. If there is no room for all, the last row is "… more".
func (p *Page) drawParts(a canvas.Area, sc *scene.Scene) {
	const barW, nsW = 20, 9
	t := &sc.Theme
	parts := ChainParts(&p.chain, sc)
	for y, x := range parts[:min(len(parts), max(a.H, 0))] {
		if y == a.H-1 && len(parts) > a.H {
			a.Put(1, y, canvas.Cut(fmt.Sprintf("%d more", len(parts)-y), a.W-2), t.Dimmed())
			return
		}
		color := t.Text
		if x.state != gvl.Unknown {
			color = t.States[x.state]
		}
		a.Put(1, y, canvas.PadLeft(units.Duration(x.NS), nsW-1), t.Bold())
		style.DrawBar(a.Sub(1+nsW, y, barW, 1), style.Share(x.NS, p.chain.LenNS), color)
		a.Put(2+nsW+barW, y, x.fit(a.W-3-nsW-barW), t.Plain())
	}
}
