package ui

import (
	"cmp"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// maxCyclesDrawn is how many deadlocks have a box of their own.
const maxCyclesDrawn = 3

func (p *locksPage) draw(a canvas.Area, sc *scene) {
	t := &sc.Theme
	y := 0
	for i, c := range p.cycles {
		left := a.H - y
		if i == maxCyclesDrawn || left < 6 {
			a.Put(2, y, fmt.Sprintf("✖ and %d more deadlocks", len(p.cycles)-i), canvas.Style{FG: t.Crit, Attr: canvas.Bold})
			y++
			break
		}
		h := min(len(c)+2, max(left/2, 4))
		p.drawCycle(a.Sub(0, y, a.W, h), c, sc)
		y += h
	}
	rest := a.Sub(0, y, a.W, a.H-y)
	// The locks get what they need up to a half, the blame the rest; and the other way round.
	blame := 0
	if p.blames(sc) {
		blame = len(p.places) + 4
	}
	locks := max(len(p.locks.rows), 1) + 1
	if least := min(rest.H/2, blame); locks > rest.H-least {
		locks = rest.H - least
	}
	p.drawLocks(rest.Sub(0, 0, rest.W, locks), sc)
	if l := p.chosen(); l != nil {
		if h := min(len(l.Waiters)+1, rest.H-locks-blame); h >= leastWaiters {
			l.drawWaiters(rest.Sub(0, locks, rest.W, h), sc)
			locks += h
		}
	}
	left := rest.Sub(0, locks, rest.W, rest.H-locks)
	switch {
	case blame > 0:
		p.drawBlame(left, sc)
	case p.waitNS > 0:
		left.Put(1, left.H-1, canvas.Cut(fmt.Sprintf("hardly any waiting for the GVL: %s of all threads together, %s", units.Duration(p.waitNS), sc.when()),
			a.W-2), t.Dimmed())
	}
}

// leastWaiters is the least height of the list of who waits for a lock, its head included.
const leastWaiters = 2

// leastBlame is how many threads must have waited for the GVL on average for a table of who made them.
const leastBlame = 0.01

// blames reports whether there is blame to speak of.
func (p *locksPage) blames(sc *scene) bool {
	return len(p.places) > 0 && style.Share(p.waitNS, sc.weights.ToNS-sc.weights.FromNS) >= leastBlame
}

// chosen is the lock whose waiters are listed: the selected one, otherwise the first that is held; nil: there is none.
func (p *locksPage) chosen() *lockRow {
	if i := p.locks.index(); i >= 0 {
		return &p.locks.rows[i]
	}
	if len(p.locks.rows) > 0 && p.locks.rows[0].Exclusive {
		return &p.locks.rows[0]
	}
	return nil
}

// drawCycle draws a deadlock in a box in reverse video.
func (p *locksPage) drawCycle(a canvas.Area, links []deadLink, sc *scene) {
	t := &sc.Theme
	st := canvas.Style{FG: t.Crit, BG: t.Background, Attr: canvas.Bold | canvas.Reverse}
	a.Row(0).Fill(' ', st)
	a.Row(a.H-1).Fill(' ', st)
	for y := range a.H {
		a.Put(0, y, "  ", st)
		a.Put(a.W-2, y, "  ", st)
	}
	a.Put(3, 0, canvas.Cut(fmt.Sprintf("✖ DEADLOCK of %d threads: none of them can ever go on", len(links)), a.W-6), st)
	for i := range links {
		if 1+i >= a.H-1 {
			a.Put(3, a.H-1, fmt.Sprintf("and %d more threads", len(links)-i), st)
			break
		}
		l := &links[i]
		x := a.Put(3, 1+i, canvas.Cut(gvl.ThreadName(l.thread, sc.dict), a.W/4), t.Bold())
		verb, held := " waits for ", ", held by "
		if l.kind == "Thread" {
			verb, held = " waits for the end of", " "
			x = a.Put(x, 1+i, verb, t.Dimmed())
		} else {
			x = a.Put(x, 1+i, verb, t.Dimmed())
			x = a.Put(x, 1+i, lockName(l.kind, l.object), t.Plain())
		}
		x = a.Put(x, 1+i, held, t.Dimmed())
		x = a.Put(x, 1+i, canvas.Cut(gvl.ThreadName(l.holder, sc.dict), a.W/4), t.Bold())
		a.Sub(0, 1+i, a.W-2, 1).Put(x, 0, canvas.Cut(" in "+whereIs(sc.dict, l.stack), a.W-3-x), t.Dimmed())
	}
}

// lockColumns are the columns of the table of locks.
func lockColumns() []column[lockRow] {
	style := func(l lockRow, t *style.Theme) canvas.Style {
		if l.Exclusive {
			return t.Plain()
		}
		return t.Dimmed()
	}
	figure := func(text func(lockRow) string) func(lockRow, *scene) (string, canvas.Style) {
		return func(l lockRow, sc *scene) (string, canvas.Style) { return text(l), style(l, &sc.Theme) }
	}
	held := func(q float64) func(lockRow, *scene) (string, canvas.Style) {
		return figure(func(l lockRow) string { return l.held(q) })
	}
	return []column[lockRow]{
		{title: "lock", width: wide(10, 80, 11, wideWidth, 13, 160, 24), draw: func(a canvas.Area, l lockRow, sc *scene) {
			x := a.Put(0, 0, canvas.Cut(cmp.Or(l.Kind, "not known"), a.W), style(l, &sc.Theme))
			if l.Object != 0 && a.W-x > 4 {
				a.Put(x+1, 0, canvas.CutLeft(fmt.Sprintf("0x%x", l.Object), a.W-x-1), sc.Theme.Dimmed())
			}
		}},
		{title: "waiters", short: "n", width: wide(3, wideWidth, 7), right: true, text: func(l lockRow, sc *scene) (string, canvas.Style) {
			st := sc.Theme.Dimmed()
			if l.Exclusive {
				st = canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Lock]), Attr: canvas.Bold}
			}
			return units.Count(int64(len(l.Waiters))), st
		}},
		{title: "longest", width: wide(7, wideWidth, 8), right: true, text: figure(func(l lockRow) string {
			if len(l.Waiters) == 0 {
				return "–"
			}
			return l.Longest().Duration()
		})},
		{title: "holder", width: wide(8, 80, 9, wideWidth, 11, 160, 16), text: holderText,
			spans: func(l lockRow) bool { return !l.Exclusive && l.Holder == 0 }},
		{title: "holder is", width: wide(0, wideWidth, 9, 160, 19), draw: func(a canvas.Area, l lockRow, sc *scene) {
			if l.Holder == 0 {
				return
			}
			text := holderIs(l.HolderState)
			if canvas.Width(text) > a.W {
				text = l.HolderState.String()
			}
			a.Put(0, 0, canvas.Cut(text, a.W), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[l.HolderState])})
		}},
		{title: "held now", short: "held", width: wide(7, wideWidth, 8), right: true, text: figure(lockRow.heldNow)},
		{title: "p50", width: wide(0, wideWidth, 7), right: true, text: held(.5)},
		{title: "p95", width: wide(7), right: true, text: held(.95)},
		{title: "max", width: wide(0, wideWidth, 7), right: true, text: held(1)},
		{title: "taken/s", short: "/s", width: wide(5, wideWidth, 7), right: true, text: figure(lockRow.perSecond)},
		{title: "where it is taken", short: "taken at", width: wide(rest), least: 8, draw: func(a canvas.Area, l lockRow, sc *scene) {
			l.taken.draw(a, &sc.Theme)
		}},
		{title: "what its holder does", width: wide(0, 160, rest),
			text: func(l lockRow, sc *scene) (string, canvas.Style) {
				return whereIs(sc.dict, l.HolderStack), style(l, &sc.Theme)
			}},
	}
}

// holderText names the holder of a lock, or says why there is none.
func holderText(l lockRow, sc *scene) (string, canvas.Style) {
	switch {
	case l.Holder != 0:
		return gvl.ThreadName(l.Holder, sc.dict), sc.Theme.Bold()
	case len(l.Waiters) == 0:
		return "–", sc.Theme.Dimmed()
	case l.Exclusive:
		return "hand-over", sc.Theme.Dimmed()
	}
	if sc.findings.pool(l.Waiters) {
		return fmt.Sprintf("%d wait for others to give it back (!)", len(l.Waiters)), sc.Theme.Bold()
	}
	return fmt.Sprintf("waited on: %d idle, no trouble by itself", len(l.Waiters)), sc.Theme.Dimmed()
}

func (p *locksPage) drawLocks(a canvas.Area, sc *scene) {
	if a.H < 1 {
		return
	}
	p.locks.draw(a, sc, true, func(Host, lockRow, int) tea.Cmd { return nil })
	if len(p.locks.rows) == 0 {
		text := "no thread waits for a lock, a queue or another thread"
		if p.shortLocks > 0 {
			text += " for " + units.Duration(int64(sc.opt.WaitThreshold)) + " or longer (--wait-threshold)"
		}
		a.Put(1, 1, canvas.Cut(text, a.W-2), sc.Theme.Dimmed())
	}
}

// holderIs says what a lock's holder does.
func holderIs(s gvl.State) string {
	if s == gvl.Waiting {
		return "waiting for the GVL"
	}
	return s.String()
}

// whereIs is the place of a stack with its file and line.
func whereIs(dict *sampler.Dictionary, stack sampler.StackID) string {
	p, line := flamegraph.PlaceOf(dict, stack)
	if p.Path == "" {
		return p.String()
	}
	return fmt.Sprintf("%s  %s:%d", p, p.Path, line)
}

// placeColumns are the columns of the table of places.
func (p *locksPage) placeColumns() []column[placeRow] {
	return []column[placeRow]{
		{title: "of it", width: wide(5), right: true, text: func(b placeRow, sc *scene) (string, canvas.Style) {
			return units.Percent(style.Share(b.NS, p.waitNS)), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Waiting]), Attr: canvas.Bold}
		}},
		{width: func(screen int) int { return screen / 8 }, draw: func(a canvas.Area, b placeRow, sc *scene) {
			for i := range int(style.Share(b.NS, p.places[0].NS)*float64(a.W) + 0.5) {
				a.Rune(i, 0, '▇', canvas.Style{FG: sc.Theme.States[gvl.Waiting]})
			}
		}},
		{title: " waited", width: wide(8),
			text: func(b placeRow, sc *scene) (string, canvas.Style) {
				return canvas.PadLeft(units.Duration(b.NS), 7), sc.Theme.Plain()
			}},
		{title: "behind", width: func(screen int) int { return min(20, screen/6) },
			text: func(b placeRow, sc *scene) (string, canvas.Style) {
				name := gvl.ThreadName(b.Thread, sc.dict)
				if n := b.Threads - 1; n > 0 {
					name += fmt.Sprintf(" +%d", n)
				}
				return name, sc.Theme.Bold()
			}},
		{title: "that was", width: wide(8), text: func(b placeRow, sc *scene) (string, canvas.Style) {
			return b.State.String(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[b.State])}
		}},
		{title: "in", width: wide(rest), draw: func(a canvas.Area, b placeRow, sc *scene) { drawPlace(a, b.PlaceSum, &sc.Theme) }},
	}
}

// drawPlace writes a place in the code with its file and line, as far as there is room.
func drawPlace(a canvas.Area, b *flamegraph.PlaceSum, t *style.Theme) {
	x := a.Put(0, 0, canvas.Cut(b.String(), a.W), t.Plain())
	if b.Path != "" && a.W-x > 10 {
		a.Put(x+2, 0, canvas.CutLeft(fmt.Sprintf("%s:%d", b.Path, b.Line), a.W-x-2), t.Dimmed())
	}
}

func (p *locksPage) drawBlame(a canvas.Area, sc *scene) {
	if a.H < 2 {
		return
	}
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	title := " nobody waited for the GVL "
	if n, of := p.topShare(); n > 0 {
		places := fmt.Sprintf("these %d places", n)
		if n == 1 {
			places = "this place"
		}
		title = fmt.Sprintf(" blame: %s caused %s of all waiting for the GVL ", places, units.Percent(of))
	}
	x := a.Put(1, 0, canvas.Cut(title, a.W-2), t.Bold())
	if nobody := style.Share(p.nobodyNS, p.waitNS); nobody >= 0.01 {
		for _, s := range []string{"─ %s while it changed hands ", "─ %s at hand-over ", "─ %s nobody "} {
			if s = fmt.Sprintf(s, units.Percent(nobody)); canvas.Width(s) < a.W-x {
				a.Put(x, 0, s, t.Dimmed())
				break
			}
		}
	}
	rows := a.Sub(0, 1, a.W, a.H-1)
	if text := sc.figures.waitsText(); text != "" && rows.H > 1 {
		rows.Put(1, 0, canvas.Cut(text, a.W-2), t.Dimmed())
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	if len(p.places) > 0 && a.H >= 10 { // heads, where they don't take a row from what is worth reading
		p.byPlace.drawHead(rows.Row(0), sc)
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	p.byPlace.drawRows(rows, sc, true, func(Host, placeRow, int) tea.Cmd { return nil })
	if rows.Y > a.Y+1 { // not over a place
		a.PutRight(1, p.byPlace.hidden(), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	}
}
