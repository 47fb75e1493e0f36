package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// maxCyclesDrawn is how many deadlocks have a box of their own.
const maxCyclesDrawn = 3

func (p *locksPage) draw(a canvas.Area, m *scene) {
	t := &m.theme
	y := 0
	for i, c := range p.cycles {
		left := a.H - y
		if i == maxCyclesDrawn || left < 6 {
			a.Put(2, y, fmt.Sprintf("✖ and %d more deadlocks", len(p.cycles)-i), canvas.Style{FG: t.Crit, Attr: canvas.Bold})
			y++
			break
		}
		h := min(len(c)+2, max(left/2, 4))
		p.drawCycle(a.Sub(0, y, a.W, h), c, m)
		y += h
	}
	rest := a.Sub(0, y, a.W, a.H-y)
	// The locks get what they need up to a half, the blame the rest; and the other way round.
	locks := max(len(p.locks), 1) + 1
	if least := min(rest.H/2, len(p.places)+4); locks > rest.H-least {
		locks = rest.H - least
	}
	p.drawLocks(rest.Sub(0, 0, rest.W, locks), m)
	p.drawBlame(rest.Sub(0, locks, rest.W, rest.H-locks), m)
}

// selectable makes a row that is drawn answer clicks.
func (p *locksPage) selectable(a canvas.Area, key lockKey, m *scene) {
	m.onPress(a, func(*Model, int, int) tea.Cmd { p.selected = key; return nil })
}

// drawCycle draws a deadlock in a box in reverse video.
func (p *locksPage) drawCycle(a canvas.Area, links []deadLink, m *scene) {
	t := &m.theme
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
		x := a.Put(3, 1+i, canvas.Cut(gvl.ThreadName(l.thread, m.store.dict), a.W/4), t.bold())
		verb, held := " waits for ", ", held by "
		if l.kind == "Thread" {
			verb, held = " waits for the end of", " "
			x = a.Put(x, 1+i, verb, t.dim())
		} else {
			x = a.Put(x, 1+i, verb, t.dim())
			x = a.Put(x, 1+i, lockName(l.kind, l.object), t.text())
		}
		x = a.Put(x, 1+i, held, t.dim())
		x = a.Put(x, 1+i, canvas.Cut(gvl.ThreadName(l.holder, m.store.dict), a.W/4), t.bold())
		a.Sub(0, 1+i, a.W-2, 1).Put(x, 0, canvas.Cut(" in "+whereIs(m.store.dict, l.stack), a.W-3-x), t.dim())
	}
}

// lockColumns are the columns of the table of locks.
type lockColumns struct{ object, kind, waiters, longest, holder, state int }

func newLockColumns(w int) lockColumns {
	switch {
	case w >= 160:
		return lockColumns{object: 14, kind: 17, waiters: 7, longest: 8, holder: 16, state: 19}
	case w >= wideWidth: // the place must have room
		return lockColumns{object: 10, kind: 9, waiters: 7, longest: 8, holder: 12, state: 10}
	}
	if w >= 80 {
		return lockColumns{object: 6, kind: 7, waiters: 7, longest: 8, holder: 10, state: 10}
	}
	return lockColumns{object: 6, kind: 6, waiters: 7, longest: 8, holder: 10, state: 8}
}

func (p *locksPage) drawLocks(a canvas.Area, m *scene) {
	if a.H < 1 {
		return
	}
	t := &m.theme
	c := newLockColumns(a.W)
	heads := []struct {
		w     int
		text  string
		right bool
	}{{c.object, "object", false}, {c.kind, "kind", false}, {c.waiters, "waiters", true}, {c.longest, "longest", true},
		{c.holder, "holder", false}, {c.state, "holder is", false}, {a.W, "where it is held", false}}
	x := 1
	for _, h := range heads {
		if a.W-x < canvas.Width(h.text) {
			break
		}
		text := h.text
		if h.right {
			text = canvas.PadLeft(text, h.w)
		}
		a.Put(x, 0, canvas.Cut(text, min(h.w, a.W-x)), t.dim())
		x += h.w + 1
	}
	rows := a.Sub(0, 1, a.W, a.H-1)
	if len(p.locks) == 0 {
		text := "no thread waits for a lock, a queue or another thread"
		if p.shortLocks > 0 {
			text += " for " + units.Duration(int64(m.opt.WaitThreshold)) + " or longer (--wait-threshold)"
		}
		rows.Put(1, 0, canvas.Cut(text, rows.W-2), t.dim())
		return
	}
	if i := p.index(); i >= 0 && i < len(p.locks) {
		p.top = max(min(p.top, i), i-rows.H+1)
	}
	p.top = max(0, min(p.top, len(p.locks)-rows.H))
	for y := range min(rows.H, len(p.locks)-p.top) {
		l := &p.locks[p.top+y]
		p.drawLock(rows.Row(y), l, c, m)
		p.selectable(rows.Row(y), keyOfLock(l), m)
	}
	if below := len(p.locks) - p.top - rows.H; below > 0 {
		a.PutRight(0, fmt.Sprintf(" ▼%d ", below), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	}
}

func (p *locksPage) drawLock(a canvas.Area, l *gvl.Contended, c lockColumns, m *scene) {
	t := &m.theme
	st, strong := t.dim(), t.dim()
	if l.Exclusive {
		st, strong = t.text(), canvas.Style{FG: t.readable(t.States[gvl.Lock]), Attr: canvas.Bold}
	}
	object := "–"
	if l.Object != 0 {
		object = fmt.Sprintf("0x%x", l.Object)
	}
	x := 1
	a.Put(x, 0, canvas.CutLeft(object, c.object), st)
	x += c.object + 1
	kind := l.Kind
	if kind == "" {
		kind = "not known"
	}
	a.Put(x, 0, canvas.Cut(kind, c.kind), st)
	x += c.kind + 1
	a.Put(x, 0, canvas.PadLeft(units.Count(int64(len(l.Waiters))), c.waiters), strong)
	x += c.waiters + 1
	a.Put(x, 0, canvas.PadLeft(units.Duration(l.LongestNS), c.longest), st)
	x += c.longest + 1
	switch {
	case l.Holder != 0:
		a.Put(x, 0, canvas.Cut(gvl.ThreadName(l.Holder, m.store.dict), c.holder), t.bold())
		x += c.holder + 1
		a.Put(x, 0, canvas.Cut(holderIs(l.HolderState), c.state), canvas.Style{FG: t.readable(t.States[l.HolderState])})
		x += c.state + 1
		if a.W-x >= leastPlace {
			a.Put(x, 0, canvas.Cut(whereIs(m.store.dict, l.HolderStack), a.W-x), st)
		}
	case l.Exclusive:
		a.Put(x, 0, "nobody just now: it changes hands", t.dim())
	default:
		a.Put(x, 0, canvas.Cut(fmt.Sprintf("waited on: %d idle, no trouble by itself", len(l.Waiters)), a.W-x), t.dim())
	}
	if keyOfLock(l) == p.selected {
		m.timeline.highlight(a, t, true)
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
}

// leastPlace is the columns below which a place in the code says nothing.
const leastPlace = 8

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

// blameColumns are the places of the columns of the blame table.
type blameColumns struct{ time, name, state, code int }

func newBlameColumns(w int) blameColumns {
	c := blameColumns{time: 8 + w/8}
	c.name = c.time + 9
	c.state = c.name + min(20, w/6) + 1
	c.code = c.state + 8
	return c
}

func (p *locksPage) drawBlame(a canvas.Area, m *scene) {
	if a.H < 2 {
		return
	}
	t := &m.theme
	a.Row(0).Fill('─', t.line())
	title := " nobody waited for the GVL "
	if n, of := p.topShare(); n > 0 {
		places := fmt.Sprintf("these %d places", n)
		if n == 1 {
			places = "this place"
		}
		title = fmt.Sprintf(" blame: %s caused %s of all waiting for the GVL ", places, units.Percent(of))
	}
	x := a.Put(1, 0, canvas.Cut(title, a.W-2), t.bold())
	if nobody := share(p.nobodyNS, p.waitNS); nobody >= 0.01 {
		for _, s := range []string{"─ %s while it changed hands ", "─ %s at hand-over ", "─ %s nobody "} {
			if s = fmt.Sprintf(s, units.Percent(nobody)); canvas.Width(s) < a.W-x {
				a.Put(x, 0, s, t.dim())
				break
			}
		}
	}
	rows := a.Sub(0, 1, a.W, a.H-1)
	if text := m.figures.waitsText(); text != "" && rows.H > 1 {
		rows.Put(1, 0, canvas.Cut(text, a.W-2), t.dim())
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	barW := a.W / 8
	if len(p.places) > 0 && a.H >= 10 { // heads, where they don't take a row from what is worth reading
		c := newBlameColumns(a.W)
		rows.Put(1, 0, canvas.PadLeft("of it", 5), t.dim())
		rows.Put(c.time, 0, canvas.PadLeft("waited", 7), t.dim())
		rows.Put(c.name, 0, "behind", t.dim())
		rows.Put(c.state, 0, "that was", t.dim())
		rows.Put(c.code+1, 0, "in", t.dim())
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	if i := p.index() - len(p.locks); i >= 0 {
		p.topPlace = max(min(p.topPlace, i), i-rows.H+1)
	}
	p.topPlace = max(0, min(p.topPlace, len(p.places)-rows.H))
	for y := range min(rows.H, len(p.places)-p.topPlace) {
		b := &p.places[p.topPlace+y]
		p.drawPlace(rows.Row(y), b, barW, m)
		p.selectable(rows.Row(y), keyOfPlace(b), m)
	}
}

func (p *locksPage) drawPlace(a canvas.Area, b *flamegraph.PlaceSum, barW int, m *scene) {
	t := &m.theme
	s := share(b.NS, p.waitNS)
	a.Put(1, 0, canvas.PadLeft(units.Percent(s), 5), canvas.Style{FG: t.readable(t.States[gvl.Waiting]), Attr: canvas.Bold})
	for i := range int(share(b.NS, p.places[0].NS)*float64(barW) + 0.5) {
		a.Rune(7+i, 0, '▇', canvas.Style{FG: t.States[gvl.Waiting]})
	}
	c := newBlameColumns(a.W)
	a.Put(c.time, 0, canvas.PadLeft(units.Duration(b.NS), 7), t.text())
	name := gvl.ThreadName(b.Thread, m.store.dict)
	if n := b.Threads - 1; n > 0 {
		name += fmt.Sprintf(" +%d", n)
	}
	a.Put(c.name, 0, canvas.Cut(name, c.state-c.name-1), t.bold())
	a.Put(c.state, 0, b.State.String(), canvas.Style{FG: t.readable(t.States[b.State])})
	x := c.code + 1
	x = a.Put(x, 0, canvas.Cut(b.String(), a.W-x), t.text())
	if b.Path != "" && a.W-x > 10 {
		a.Put(x+2, 0, canvas.CutLeft(fmt.Sprintf("%s:%d", b.Path, b.Line), a.W-x-2), t.dim())
	}
	if p.selected == keyOfPlace(b) {
		m.timeline.highlight(a, t, true)
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
}
