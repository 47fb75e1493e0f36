package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// longRequestNS is from which age on a request stands out, in ns.
const longRequestNS = int64(1e9)

// requestColumns are the columns of what is in progress.
func requestColumns() []column[*requestRow] {
	return []column[*requestRow]{
		{title: "age", width: wide(7, wideWidth, 8), right: true, order: "age", compare: func(x, y *requestRow) int { return cmp.Compare(y.ageNS, x.ageNS) },
			text: func(w *requestRow, sc *scene) (string, canvas.Style) {
				if w.ageNS >= longRequestNS {
					return w.age(), canvas.Style{FG: sc.Theme.Warn, Attr: canvas.Bold}
				}
				return w.age(), sc.Theme.Plain()
			}},
		{title: "thread", width: wide(8, 80, 10, wideWidth, 15, 160, 18), order: "thread", compare: func(x, y *requestRow) int { return strings.Compare(x.thread, y.thread) },
			draw: func(a canvas.Area, w *requestRow, sc *scene) { // names of pools differ at their ends
				a.Put(0, 0, canvas.CutLeft(w.thread, a.W), sc.Theme.Dimmed())
			}},
		{title: "request", width: wide(14, 80, 19, wideWidth, 26, 160, 44), order: "request", compare: func(x, y *requestRow) int { return strings.Compare(x.name, y.name) },
			draw: func(a canvas.Area, w *requestRow, sc *scene) { drawEndpoint(a, w.name, w.values(sc), &sc.Theme) }},
		{title: "now", width: wide(rest), least: 16, order: "state", draw: drawRequestNow,
			compare: func(x, y *requestRow) int { return cmp.Compare(x.urgent(), y.urgent()) }},
		{title: "of its time", width: wide(9, 80, 12, wideWidth, 20, 160, 30), drop: 1, bare: true,
			draw: func(a canvas.Area, w *requestRow, sc *scene) {
				totals := w.NS
				if w.state != nil && w.FiberNS == 0 && totals == [gvl.NumStates]int64{} { // it has just begun
					totals[w.state.State] = 1
				}
				drawTime(a, &totals, w.FiberNS, sc)
			}},
		{width: wide(0, 160, 26), draw: func(a canvas.Area, w *requestRow, sc *scene) { drawParts(a, &w.NS, w.FiberNS, w.Peers, sc) }},
	}
}

// age is how long it has taken by the moment shown: "1.84 s", "≥12 s"; "≤20 ms" where the readings at its begin were too far apart
// to tell, "new" where nothing is known yet.
func (w *requestRow) age() string {
	switch {
	case w.AtLeast && w.ageNS == 0:
		return "new"
	case w.AtLeast:
		return "≥" + units.Duration(w.ageNS)
	}
	return lengthText(gvl.Length(w.ageNS, w.BeginSlackNS()))
}

// values are its path or its arguments, where they are shown.
func (w *requestRow) values(sc *scene) string {
	if sc.hidesNames() {
		return ""
	}
	return canvas.Clean(w.Work.Values)
}

// urgent is the place of its state in urgency.
func (w *requestRow) urgent() int {
	if w.state == nil {
		return len(urgency)
	}
	return slices.Index(urgency[:], w.state.State)
}

// endpointColumns are the columns of routes and classes of jobs.
func endpointColumns() []column[*endpointRow] {
	length := func(title string, of func(*endpointRow) int64, text func(*endpointRow) string, width func(int) int, drop int) column[*endpointRow] {
		return column[*endpointRow]{title: title, width: width, drop: drop, right: true, order: title,
			compare: func(x, y *endpointRow) int { return cmp.Compare(of(y), of(x)) },
			text: func(w *endpointRow, sc *scene) (string, canvas.Style) {
				if s := text(w); s != "–" {
					return s, sc.Theme.Plain()
				}
				return "–", sc.Theme.Faded()
			}}
	}
	quantile := func(title string, q float64, width func(int) int, drop int) column[*endpointRow] {
		of := func(w *endpointRow) int64 { return w.Durations.Quantile(q) }
		return length(title, of, func(w *endpointRow) string {
			if n, _ := w.Durations.Count(); n == 0 {
				return "–"
			}
			return lengthText(w.Quantile(q))
		}, width, drop)
	}
	longest := func(w *endpointRow) string {
		switch {
		case w.LongestNS == 0:
			return "–"
		case w.LongestAtLeast:
			return "≥" + units.Duration(w.LongestNS)
		}
		return lengthText(gvl.Length(w.LongestNS, w.SlackNS))
	}
	return []column[*endpointRow]{
		{title: "route", width: wide(rest), least: 18, order: "name", compare: func(x, y *endpointRow) int { return strings.Compare(x.name, y.name) },
			draw: func(a canvas.Area, w *endpointRow, sc *scene) { drawEndpoint(a, w.name, "", &sc.Theme) }},
		{title: "seen", short: "n", width: wide(5, wideWidth, 6), right: true, order: "seen",
			compare: func(x, y *endpointRow) int { return cmp.Compare(y.Ended+y.Running, x.Ended+x.Running) },
			text: func(w *endpointRow, sc *scene) (string, canvas.Style) {
				return units.Count(int64(w.Ended + w.Running)), sc.Theme.Plain()
			}},
		{title: "/s", width: wide(5, wideWidth, 6), drop: 2, right: true,
			text: func(w *endpointRow, sc *scene) (string, canvas.Style) {
				return perSecondText(w.PerSecond), sc.Theme.Dimmed()
			}},
		quantile("p50", .5, wide(7, wideWidth, 8), 3), quantile("p95", .95, wide(7, wideWidth, 8), 0),
		length("max", func(w *endpointRow) int64 { return w.LongestNS }, longest, wide(8, wideWidth, 9), 4),
		{title: "where its time goes", short: "time", width: wide(9, 80, 12, wideWidth, 20, 160, 30), drop: 1, bare: true,
			draw: func(a canvas.Area, w *endpointRow, sc *scene) { drawTime(a, &w.NS, w.FiberNS, sc) }},
		{width: wide(0, wideWidth, 16, 160, 44), draw: func(a canvas.Area, w *endpointRow, sc *scene) { drawParts(a, &w.NS, w.FiberNS, w.Peers, sc) }},
		{title: "makes others wait", short: "blame", width: wide(6, wideWidth, 7, 160, 17), right: true, order: "blame",
			compare: func(x, y *endpointRow) int { return cmp.Compare(y.BlameNS, x.BlameNS) }, text: endpointBlame},
	}
}

// muchBlame is the share of all waiting for the GVL from which on it stands out, littleBlame that from which on it is said.
const (
	muchBlame   = 0.25
	littleBlame = 0.005
)

func endpointBlame(w *endpointRow, sc *scene) (string, canvas.Style) {
	st := canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Waiting])}
	switch {
	case w.blame < littleBlame:
		return "–", sc.Theme.Faded()
	case sc.figures.waiting < blameGoes: // of little waiting
		return units.Percent(w.blame), sc.Theme.Dimmed()
	case w.blame >= muchBlame:
		st.Attr = canvas.Bold
	}
	return units.Percent(w.blame), st
}

// drawEndpoint writes a route or a class of jobs, and where they are shown the values of a request.
func drawEndpoint(a canvas.Area, name, values string, t *style.Theme) {
	x := a.Put(0, 0, canvas.Cut(name, a.W), t.Bold())
	if verb, _, ok := strings.Cut(name, " "); ok && verb == strings.ToUpper(verb) {
		a.Put(0, 0, canvas.Cut(verb, a.W), t.Dimmed())
	}
	const least = 4
	if values != "" && a.W-x > least {
		a.Put(x+2, 0, canvas.Cut(values, a.W-x-2), t.Dimmed())
	}
}

// drawRequestNow writes what a request does: the state in its words, then the statement or where it is in the code, which has up to
// a half of the room.
func drawRequestNow(a canvas.Area, w *requestRow, sc *scene) {
	t := &sc.Theme
	switch {
	case w.waits:
		x := a.Put(0, 0, canvas.Cut("its fiber waits", a.W), t.Dimmed())
		if left := a.W - x - 2; w.what != "" && left >= min(4, canvas.Width(w.what)) {
			a.Put(x+2, 0, canvas.Cut(w.what, left), t.Plain())
		}
		return
	case w.suspended:
		a.Put(0, 0, canvas.Cut("its fiber waits, others of its thread run", a.W), t.Dimmed())
		return
	case w.state == nil:
		a.Put(0, 0, "not known", t.Faded())
		return
	}
	room, least := a.W, 4
	if s := w.state.State; s == gvl.Waiting || s == gvl.Lock { // whom it waits for says more than where it is in the code
		least = 14
	} else if w.what != "" {
		room = max(a.W-2-canvas.Width(w.what), a.W/2)
	}
	text := fit(w.forms, room)
	x := a.Put(0, 0, text, t.Dimmed())
	word, _, _ := strings.Cut(text, " ")
	st := canvas.Style{FG: t.Readable(t.States[w.state.State])}
	if s := w.state.State; s == gvl.Waiting || s.Held() || s == gvl.Lock {
		st.Attr = canvas.Bold
	}
	a.Put(0, 0, word, st)
	if left := a.W - x - 2; w.what != "" && left >= min(least, canvas.Width(w.what)) {
		a.Put(x+2, 0, canvas.Cut(w.what, left), t.Plain())
	}
}

// fiberMark is a cell of the time in which a fiber waits for a request and no thread works for it: that is no state of a thread.
const fiberMark = 'f'

// drawTime draws what the time of requests went to: a thread's states and then the waiting of fibers.
func drawTime(a canvas.Area, totals *[gvl.NumStates]int64, fiberNS int64, sc *scene) {
	both := [2]int64{units.Sum(totals[:]), fiberNS}
	width := units.Divide(a.W, both[:], both[0]+both[1], nil)
	sc.Theme.DrawStates(a.Sub(0, 0, width[0], 1), totals, sc.opt.ASCII)
	for x := width[0]; x < width[0]+width[1]; x++ {
		a.Rune(x, 0, fiberMark, sc.Theme.Dimmed())
	}
}

// maxParts is how many states are named that time went to.
const maxParts = 4

// drawParts names the states that time went to, as many as there is room for; the peer where all of them have room.
func drawParts(a canvas.Area, totals *[gvl.NumStates]int64, fiberNS int64, peers []gvl.PeerNS, sc *scene) {
	x := 0
	for _, s := range partsOf(totals, fiberNS, peers, sc, a.W > 2*len("native 00  ")) {
		if x+canvas.Width(s) > a.W {
			return
		}
		x = a.Put(x, 0, s, sc.Theme.Dimmed()) + 2
	}
}

// partsOf is what time went to, the longest first: "io 52 db-1:5432", "wait 40", "fiber waits 8".
func partsOf(totals *[gvl.NumStates]int64, fiberNS int64, peers []gvl.PeerNS, sc *scene, named bool) []string {
	type part struct {
		text string
		ns   int64
	}
	list := []part{{"fiber waits", fiberNS}}
	for _, s := range urgency {
		list = append(list, part{shortStates[s], totals[s]})
	}
	slices.SortStableFunc(list, func(x, y part) int { return cmp.Compare(y.ns, x.ns) })
	sum := units.Sum(totals[:]) + fiberNS
	var parts []string
	for _, p := range list[:maxParts] {
		sh := style.Share(p.ns, sum)
		if sh < 0.01 {
			break
		}
		text := p.text + " " + units.WholePercent(sh)
		if p.text == shortStates[gvl.IO] && named && len(peers) > 0 {
			if name := peerWord(sc.dict.Peer(peers[0].Peer)); name != "" {
				text += " " + name
			}
		}
		parts = append(parts, text)
	}
	return parts
}

// peerWord is a peer in a word: what it is, or where.
func peerWord(p sampler.Peer) string {
	return canvas.Clean(cmp.Or(p.Service, p.Remote))
}

func (p *requestsPage) draw(a canvas.Area, sc *scene) {
	// What is in progress gets what it needs up to a half, the routes the rest; and the other way round.
	below := 0
	if len(p.endpoints.rows) > 0 {
		below = len(p.endpoints.rows) + 2
	}
	above := max(len(p.running.rows), 1) + 1
	if least := min(a.H/2, below); above > a.H-least {
		above = a.H - least
	}
	none := func(Host, *requestRow, int) tea.Cmd { return nil }
	p.running.draw(a.Sub(0, 0, a.W, above), sc, true, none)
	if len(p.running.rows) == 0 {
		a.Put(2, 1, canvas.Cut(p.nothing(sc), a.W-3), sc.Theme.Dimmed())
	}
	below = min(below, a.H-above)
	switch {
	case below > 0:
		p.drawEndpoints(a.Sub(0, above, a.W, below), sc)
	case p.all[1] == 0 && sc.served.toldNS > 0 && above < a.H:
		below = 1
		a.Put(2, above, canvas.Cut("by route: "+sc.untold(), a.W-3), sc.Theme.Dimmed())
	}
	if w := p.shown(); w != nil && w.state != nil {
		i := slices.IndexFunc(sc.threads, func(t threadRow) bool { return t.id == w.Thread })
		line := sc.threads.row(i, false)
		line.name += "  " + w.name
		p.now.draw(a.Sub(0, above+below, a.W, a.H-above-below), sc, &line)
	}
}

// shown is the request whose stack has the rows that the tables leave: the selected one, or the first; nil while a route is selected.
func (p *requestsPage) shown() *requestRow {
	if i := p.running.index(); i >= 0 {
		return p.running.rows[i]
	}
	if p.endpoints.index() < 0 && len(p.running.rows) > 0 {
		return p.running.rows[0]
	}
	return nil
}

// nothing says that nothing is in progress, and what was last.
func (p *requestsPage) nothing(sc *scene) string {
	switch {
	case p.all[0] > 0:
		return "none of what is in progress matches the search"
	case !sc.served.seen && sc.served.server.met:
		return "no request and no job was seen yet"
	case !sc.served.seen:
		return "no request and no job was seen: Rack's are told from outside, and those of the usual job runners"
	}
	s := "no request and no job is in progress"
	if q := sc.served.last; q != nil {
		s = fmt.Sprintf("none in progress; the last ended %s ago: %s, %s (%s)", units.Duration(sc.atNS-q.ToNS),
			canvas.Clean(endpointName(q.Work.Kind, q.Work.Endpoint)), units.Duration(q.DurationNS()), canvas.Clean(gvl.ThreadName(q.Thread, sc.dict)))
	}
	return s
}

// untold says from when on routes are told, where the time shown begins before that.
func (sc *scene) untold() string {
	ago := units.Duration(max(sc.lastNS-sc.served.toldNS, 0))
	return "of the last " + ago + " alone, since " + sc.process.WallTime(sc.served.toldNS).Format("15:04:05")
}

func (p *requestsPage) drawEndpoints(a canvas.Area, sc *scene) {
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	kinds := make(map[sampler.WorkKind]bool)
	for _, w := range p.endpoints.rows {
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
	if sc.served.toldNS > 0 {
		a.Put(x+1, 0, canvas.Cut(" "+sc.untold()+" ", a.W-x-1), t.Dimmed())
	}
	p.endpoints.draw(a.Sub(0, 1, a.W, a.H-1), sc, true, func(Host, *endpointRow, int) tea.Cmd { return nil })
}
