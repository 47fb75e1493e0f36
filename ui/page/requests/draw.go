package requests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// longRequestNS is the age, in ns, from which on a request is highlighted.
const longRequestNS = int64(1e9)

// requestColumns returns the columns of the table of requests in progress.
func requestColumns() []widget.Column[*widget.RequestRow] {
	return []widget.Column[*widget.RequestRow]{
		{Title: "age", Width: widget.Wide(7, scene.WideWidth, 8), Right: true, Order: "age", Compare: func(x, y *widget.RequestRow) int { return cmp.Compare(y.AgeNS, x.AgeNS) },
			Text: func(w *widget.RequestRow, sc *scene.Scene) (string, canvas.Style) {
				if w.AgeNS >= longRequestNS {
					return w.Age(), canvas.Style{FG: sc.Theme.Warn, Attr: canvas.Bold}
				}
				return w.Age(), sc.Theme.Plain()
			}},
		{Title: "thread", Width: widget.Wide(8, 80, 10, scene.WideWidth, 15, 160, 18), Order: "thread", Compare: func(x, y *widget.RequestRow) int { return strings.Compare(x.ThreadName, y.ThreadName) },
			// shorten the name but keep its end, because names of threads in a pool differ only there
			Draw: func(a canvas.Area, w *widget.RequestRow, sc *scene.Scene) {
				a.Put(0, 0, canvas.CutName(w.ThreadName, a.W), sc.Theme.Dimmed())
			}},
		{Title: "request", Width: widget.Wide(14, 80, 19, scene.WideWidth, 26, 160, 44), Order: "request", Compare: func(x, y *widget.RequestRow) int { return strings.Compare(x.Name, y.Name) },
			Draw: func(a canvas.Area, w *widget.RequestRow, sc *scene.Scene) {
				widget.DrawEndpoint(a, w.Name, w.Values(sc), &sc.Theme)
			}},
		{Title: "now", Width: widget.Wide(widget.Rest), Least: 16, Order: "state", Draw: drawRequestNow,
			Compare: func(x, y *widget.RequestRow) int { return cmp.Compare(x.Urgent(), y.Urgent()) }},
		{Title: "of its time", Width: widget.Wide(9, 80, 12, scene.WideWidth, 20, 160, 30), Drop: 1, Bare: true,
			Draw: func(a canvas.Area, w *widget.RequestRow, sc *scene.Scene) {
				totals := w.NS
				if w.State != nil && w.FiberNS == 0 && totals == [gvl.NumStates]int64{} { // the request has just begun
					totals[w.State.State] = 1
				}
				DrawTime(a, &totals, w.FiberNS, sc)
			}},
		{Width: widget.Wide(0, 160, 26), Draw: func(a canvas.Area, w *widget.RequestRow, sc *scene.Scene) {
			drawParts(a, &w.NS, w.FiberNS, w.Peers, sc)
		}},
	}
}

// endpointColumns returns the columns of the table of routes and classes of jobs.
func endpointColumns() []widget.Column[*endpointRow] {
	length := func(title string, of func(*endpointRow) int64, text func(*endpointRow) string, width func(int) int, drop int) widget.Column[*endpointRow] {
		return widget.Column[*endpointRow]{Title: title, Width: width, Drop: drop, Right: true, Order: title,
			Compare: func(x, y *endpointRow) int { return cmp.Compare(of(y), of(x)) },
			Text: func(w *endpointRow, sc *scene.Scene) (string, canvas.Style) {
				switch s := text(w); {
				case s == "–":
				// there is no room for the column ±, so a sign marks the number as inexact
				case w.Slack() > 0 && sc.Width < scene.WideWidth && !strings.HasPrefix(s, "≥"):
					return "~" + s, sc.Theme.Plain()
				default:
					return s, sc.Theme.Plain()
				}
				return "–", sc.Theme.Faded()
			}}
	}
	quantile := func(title string, q float64, width func(int) int, drop int) widget.Column[*endpointRow] {
		of := func(w *endpointRow) int64 { return w.Durations.Quantile(q) }
		return length(title, of, func(w *endpointRow) string {
			if n, _ := w.Durations.Count(); n == 0 {
				return "–"
			}
			return units.Duration(of(w))
		}, width, drop)
	}
	longest := func(w *endpointRow) string {
		switch {
		case w.LongestNS == 0:
			return "–"
		case w.LongestAtLeast:
			return "≥" + units.Duration(w.LongestNS)
		}
		return units.Duration(w.LongestNS)
	}
	queued := func(w *endpointRow) string {
		if n, _ := w.Queued.Count(); n == 0 {
			return "–"
		}
		return units.Duration(w.Queued.Quantile(.95))
	}
	return []widget.Column[*endpointRow]{
		{Title: "route", Width: widget.Wide(widget.Rest), Least: 18, Order: "name", Compare: func(x, y *endpointRow) int { return strings.Compare(x.Title, y.Title) },
			Draw: func(a canvas.Area, w *endpointRow, sc *scene.Scene) { widget.DrawEndpoint(a, w.Title, "", &sc.Theme) }},
		{Title: "seen", Short: "n", Width: widget.Wide(5, scene.WideWidth, 6), Right: true, Order: "seen",
			Compare: func(x, y *endpointRow) int { return cmp.Compare(y.Ended+y.Running, x.Ended+x.Running) },
			Text: func(w *endpointRow, sc *scene.Scene) (string, canvas.Style) {
				return units.Count(int64(w.Ended + w.Running)), sc.Theme.Plain()
			}},
		{Title: "/s", Width: widget.Wide(5, scene.WideWidth, 6), Drop: 2, Right: true,
			Text: func(w *endpointRow, sc *scene.Scene) (string, canvas.Style) {
				return scene.PerSecondText(w.PerSecond, w.AtLeast), sc.Theme.Dimmed()
			}},
		quantile("p50", .5, widget.Wide(7, scene.WideWidth, 8), 3), quantile("p95", .95, widget.Wide(7, scene.WideWidth, 8), 0),
		length("max", func(w *endpointRow) int64 { return w.LongestNS }, longest, widget.Wide(8, scene.WideWidth, 9), 4),
		{Title: "±", Width: widget.Wide(0, scene.WideWidth, 7), Right: true, Text: func(w *endpointRow, sc *scene.Scene) (string, canvas.Style) {
			if slack := w.Slack(); slack > 0 {
				return units.Duration(slack), sc.Theme.Dimmed()
			}
			return "", sc.Theme.Dimmed()
		}},
		length("queued p95", func(w *endpointRow) int64 { return w.Queued.Quantile(.95) }, queued, widget.Wide(0, 160, 10), 0),
		{Title: "where its time goes", Short: "time", Width: widget.Wide(9, 80, 12, scene.WideWidth, 20, 160, 30), Drop: 1, Bare: true,
			Draw: func(a canvas.Area, w *endpointRow, sc *scene.Scene) {
				if sc.Figures.Enough(sampler.FigureStates) {
					DrawTime(a, &w.NS, w.FiberNS, sc)
				} else {
					a.Put(0, 0, "–", sc.Theme.Faded())
				}
			}},
		{Width: widget.Wide(0, scene.WideWidth, 16, 160, 44), Draw: func(a canvas.Area, w *endpointRow, sc *scene.Scene) {
			if sc.Figures.Enough(sampler.FigureStates) {
				drawParts(a, &w.NS, w.FiberNS, w.Peers, sc)
			}
		}},
		{Title: "makes others wait", Short: "blame", Width: widget.Wide(6, scene.WideWidth, 7, 160, 17), Right: true, Order: "blame",
			Compare: func(x, y *endpointRow) int { return cmp.Compare(y.BlameNS, x.BlameNS) }, Text: endpointBlame},
	}
}

// A route's blame is the share of all waiting for the GVL that the route caused. From muchBlame on, the share is
// highlighted. Below littleBlame it is not shown.
const (
	muchBlame   = 0.25
	littleBlame = 0.005
)

func endpointBlame(w *endpointRow, sc *scene.Scene) (string, canvas.Style) {
	st := canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Waiting])}
	switch {
	case w.Blame < littleBlame, !sc.Figures.Enough(sampler.FigureWaits), !sc.Figures.Enough(sampler.FigureStacks):
		return "–", sc.Theme.Faded()
	// the route's share of the waiting says little, because there is very little waiting
	case sc.Figures.Waiting < widget.BlameGoes:
		return units.Percent(w.Blame), sc.Theme.Dimmed()
	case w.Blame >= muchBlame:
		st.Attr = canvas.Bold
	}
	return units.Percent(w.Blame), st
}

// awayText returns the text for a request whose thread now does something else. It is shown instead of the thread's
// state. The text mentions a fiber only if ddtop has seen a fiber of the request wait. Otherwise there may be no fiber:
// the thread may have begun another request, or ended this one.
func awayText(w *widget.RequestRow) string {
	if w.FiberNS > 0 {
		return "its fiber waits, others of its thread run"
	}
	return "its thread does something else now"
}

// drawRequestNow writes what a request does now. It writes the state of its thread, and then the database statement or
// the place in the code. The statement or place gets up to half of the room.
func drawRequestNow(a canvas.Area, w *widget.RequestRow, sc *scene.Scene) {
	t := &sc.Theme
	switch {
	case w.FiberWaits:
		x := a.Put(0, 0, canvas.Cut("its fiber waits", a.W), t.Dimmed())
		if left := a.W - x - 2; w.What != "" && left >= min(4, canvas.Width(w.What)) {
			a.Put(x+2, 0, canvas.Cut(w.What, left), t.Plain())
		}
		return
	case w.Away:
		a.Put(0, 0, canvas.Cut(awayText(w), a.W), t.Dimmed())
		return
	case w.State == nil:
		a.Put(0, 0, "not known", t.Faded())
		return
	}
	room, least := a.W, 4
	// keep room for the state's text: it names the thread for which the request's thread waits, and is more useful than
	// the place in the code
	if s := w.State.State; s == gvl.Waiting || s == gvl.Lock {
		least = 14
	} else if w.What != "" {
		room = max(a.W-2-canvas.Width(w.What), a.W/2)
	}
	text := style.Fit(w.Forms, room)
	x := a.Put(0, 0, text, t.Dimmed())
	word, _, _ := strings.Cut(text, " ")
	a.Put(0, 0, word, t.State(w.State.State))
	if left := a.W - x - 2; w.What != "" && left >= min(least, canvas.Width(w.What)) {
		a.Put(x+2, 0, canvas.Cut(w.What, left), t.Plain())
	}
}

// fiberMark is the letter for the time in which a fiber of the request waits, and no thread works for the request. No
// state of threads has this letter, because this time is not spent in a thread's state.
const fiberMark = 'f'

// DrawTime draws a bar that shows how the time of requests was spent: first in which states their threads were, and
// then how long their fibers waited.
func DrawTime(a canvas.Area, totals *[gvl.NumStates]int64, fiberNS int64, sc *scene.Scene) {
	both := [2]int64{units.Sum(totals[:]), fiberNS}
	width := units.Divide(a.W, both[:], both[0]+both[1], nil)
	sc.Theme.DrawStates(a.Sub(0, 0, width[0], 1), totals, sc.Opt.ASCII)
	for x := width[0]; x < width[0]+width[1]; x++ {
		a.Rune(x, 0, fiberMark, sc.Theme.Dimmed())
	}
}

// maxParts limits how many parts of a request's time are named.
const maxParts = 4

// drawParts writes the names of the parts of a request's time, as many as there is room for. In an area wider than two
// parts, the state io also has the peer (the other end of the connection).
func drawParts(a canvas.Area, totals *[gvl.NumStates]int64, fiberNS int64, peers []account.PeerNS, sc *scene.Scene) {
	x := 0
	for _, s := range PartsOf(totals, fiberNS, peers, sc, a.W > 2*len("native 00  ")) {
		if x+canvas.Width(s) > a.W {
			return
		}
		x = a.Put(x, 0, s, sc.Theme.Dimmed()) + 2
	}
}

// PartsOf returns the parts of a time in percent, the longest first: "io 52 db-1:5432", "wait 40", "fiber waits 8". In
// this example db-1:5432 is the peer of the I/O. If named is false, the peer is left out.
func PartsOf(totals *[gvl.NumStates]int64, fiberNS int64, peers []account.PeerNS, sc *scene.Scene, named bool) []string {
	type part struct {
		text string
		ns   int64
	}
	list := []part{{"fiber waits", fiberNS}}
	for _, s := range gvl.ByUrgency {
		list = append(list, part{s.Short(), totals[s]})
	}
	sorting.StableBy(list, func(x, y part) int { return cmp.Compare(y.ns, x.ns) })
	sum := units.Sum(totals[:]) + fiberNS
	var parts []string
	for _, p := range list[:maxParts] {
		sh := style.Share(p.ns, sum)
		if sh < 0.01 {
			break
		}
		text := p.text + " " + units.WholePercent(sh)
		if p.text == gvl.IO.Short() && named && len(peers) > 0 {
			if name := peerWord(sc.Dict.Peer(peers[0].Peer)); name != "" {
				text += " " + name
			}
		}
		parts = append(parts, text)
	}
	return parts
}

// peerWord returns a word for the other end of a connection: its service, or its address.
func peerWord(p sampler.Peer) string {
	return canvas.Clean(cmp.Or(p.Service, p.Remote))
}

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	// The table of routes gets up to half of the rows, even if there are many requests in progress.
	below := 0
	if len(p.Endpoints.Rows) > 0 {
		below = len(p.Endpoints.Rows) + 2
	}
	above := max(len(p.Running.Rows), 1) + 1
	if least := min(a.H/2, below); above > a.H-least {
		above = a.H - least
	}
	why := sc.Figures.Why(sampler.FigureRequests)
	if p.all[1] == 0 {
		why = "" // no request has ended yet
	}
	none := func(scene.Host, *widget.RequestRow, int) tea.Cmd { return nil }
	p.Running.Draw(a.Sub(0, 0, a.W, above), sc, true, none)
	if len(p.Running.Rows) == 0 {
		a.Put(2, 1, canvas.Cut(p.nothing(sc), a.W-3), sc.Theme.Dimmed())
	}
	below = min(below, a.H-above)
	switch {
	case why != "" && above < a.H:
		lines, _ := style.Wrap("by route: "+why, a.W-3, min(2, a.H-above))
		below = len(lines)
		for y, line := range lines {
			a.Put(2, above+y, line, sc.Theme.Dimmed())
		}
	case below > 0:
		p.drawEndpoints(a.Sub(0, above, a.W, below), sc)
	case p.all[1] == 0 && sc.Served.RoutesFromNS > 0 && above < a.H:
		below = 1
		a.Put(2, above, canvas.Cut("by route: "+RoutesSince(sc), a.W-3), sc.Theme.Dimmed())
	}
	if w := p.shown(); w != nil && w.State != nil {
		i := slices.IndexFunc(sc.Threads, func(t scene.Thread) bool { return t.ID == w.Thread })
		line := sc.Threads.Row(i, false)
		line.Name += "  " + w.Name
		p.now.Draw(a.Sub(0, above+below, a.W, a.H-above-below), sc, &line)
	}
}

// shown returns the request whose stack is drawn below the tables. This is the selected request, or the first one if
// nothing is selected. It is nil while a route is selected.
func (p *Page) shown() *widget.RequestRow {
	if i := p.Running.Index(); i >= 0 {
		return p.Running.Rows[i]
	}
	if p.Endpoints.Index() < 0 && len(p.Running.Rows) > 0 {
		return p.Running.Rows[0]
	}
	return nil
}

// nothing returns the text for the time in which no request is in progress. It says what the last request was.
func (p *Page) nothing(sc *scene.Scene) string {
	switch {
	case p.all[0] > 0:
		return "none of what is in progress matches the search"
	case !sc.Served.Seen && sc.Served.Server.Met:
		return "no request and no job was seen yet"
	case !sc.Served.Seen:
		return "no request and no job was seen: Rack's are told from outside, and those of the usual job runners"
	}
	s := "no request and no job is in progress"
	if q := sc.Served.Last; q != nil {
		s = fmt.Sprintf("none in progress; the last ended %s ago: %s, %s (%s)", units.Duration(sc.AtNS-q.ToNS),
			canvas.Clean(scene.EndpointName(q.Work.Kind, q.Work.Endpoint)), units.Duration(q.DurationNS()), canvas.Clean(gvl.ThreadName(q.Thread, sc.Dict)))
	}
	return s
}

// RoutesSince returns a text that says since when the routes are known. It is shown if the time on the screen begins
// before ddtop knew the routes.
func RoutesSince(sc *scene.Scene) string {
	ago := units.Duration(max(sc.LastNS-sc.Served.RoutesFromNS, 0))
	return "of the last " + ago + " alone, since " + sc.Process.WallTime(sc.Served.RoutesFromNS).Format("15:04:05")
}

func (p *Page) drawEndpoints(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	kinds := make(map[sampler.WorkKind]bool)
	for _, w := range p.Endpoints.Rows {
		kinds[w.Kind] = true
	}
	title := " by route "
	switch {
	case kinds[sampler.WorkJob] && kinds[sampler.WorkRequest]:
		title = " by route and class of jobs "
	case kinds[sampler.WorkJob]:
		title = " by class of jobs "
	}
	x := a.Put(2, 0, title, t.Bold())
	if sc.Served.RoutesFromNS > 0 {
		a.Put(x+1, 0, canvas.Cut(" "+RoutesSince(sc)+" ", a.W-x-1), t.Dimmed())
	}
	p.Endpoints.Draw(a.Sub(0, 1, a.W, a.H-1), sc, true, func(scene.Host, *endpointRow, int) tea.Cmd { return nil })
}
