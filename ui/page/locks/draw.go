package locks

import (
	"cmp"
	"fmt"
	"slices"
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

// maxCyclesDrawn limits how many deadlocks are drawn, each in a box.
const maxCyclesDrawn = 3

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
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
	// The lower table lists the code that made threads wait for the GVL (the blame). It gets as many rows as it needs,
	// up to half of the rows. The table of locks may then have too few rows.
	blame := 0
	if p.blames(sc) {
		blame = len(p.Places) + 4
	}
	locks := max(len(p.Locks.Rows), 1) + 1
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
	case p.WaitNS > 0:
		left.Put(1, left.H-1, canvas.Cut(fmt.Sprintf("hardly any waiting for the GVL: %s of all threads together, %s", units.Duration(p.WaitNS), sc.When()),
			a.W-2), t.Dimmed())
	}
}

// leastWaiters is the least number of rows for the list of waiting threads, including its heading.
const leastWaiters = 2

// leastBlame is an average number of threads that wait for the GVL. If at least this many wait, the page shows the
// table of the code that caused the waiting.
const leastBlame = 0.01

// blames reports whether enough threads waited for the GVL to show the table of the code that caused this waiting.
func (p *Page) blames(sc *scene.Scene) bool {
	return len(p.Places) > 0 && style.Share(p.WaitNS, sc.Weights.ToNS-sc.Weights.FromNS) >= leastBlame
}

// chosen returns the lock whose waiting threads the page lists: the selected lock. If no lock is selected, it is the
// first lock that a thread holds. It is nil if there is no such lock.
func (p *Page) chosen() *lockRow {
	if i := p.Locks.Index(); i >= 0 {
		return &p.Locks.Rows[i]
	}
	if len(p.Locks.Rows) > 0 && p.Locks.Rows[0].Exclusive {
		return &p.Locks.Rows[0]
	}
	return nil
}

// drawCycle draws one deadlock: a box in reverse video with the threads and locks of the cycle.
func (p *Page) drawCycle(a canvas.Area, links []deadLink, sc *scene.Scene) {
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
		x := a.Put(3, 1+i, canvas.CutName(gvl.ThreadName(l.thread, sc.Dict), a.W/4), t.Bold())
		verb, held := " waits for ", ", held by "
		if l.kind == "Thread" {
			verb, held = " waits for the end of", " "
			x = a.Put(x, 1+i, verb, t.Dimmed())
		} else {
			x = a.Put(x, 1+i, verb, t.Dimmed())
			x = a.Put(x, 1+i, lockName(l.kind, l.object), t.Plain())
		}
		x = a.Put(x, 1+i, held, t.Dimmed())
		x = a.Put(x, 1+i, canvas.CutName(gvl.ThreadName(l.holder, sc.Dict), a.W/4), t.Bold())
		a.Sub(0, 1+i, a.W-2, 1).Put(x, 0, canvas.Cut(" in "+whereIs(sc.Dict, l.stack), a.W-3-x), t.Dimmed())
	}
}

// lockColumns are the columns of the table of locks.
func lockColumns() []widget.Column[lockRow] {
	style := func(l lockRow, t *style.Theme) canvas.Style {
		if l.Exclusive {
			return t.Plain()
		}
		return t.Dimmed()
	}
	figure := func(text func(lockRow) string) func(lockRow, *scene.Scene) (string, canvas.Style) {
		return func(l lockRow, sc *scene.Scene) (string, canvas.Style) { return text(l), style(l, &sc.Theme) }
	}
	held := func(i int) func(lockRow, *scene.Scene) (string, canvas.Style) {
		return figure(func(l lockRow) string { return l.held(i) })
	}
	return []widget.Column[lockRow]{
		{Title: "lock", Width: widget.Wide(10, 80, 11, scene.WideWidth, 13, 160, 24), Draw: func(a canvas.Area, l lockRow, sc *scene.Scene) {
			x := a.Put(0, 0, canvas.Cut(kindIn(cmp.Or(l.Kind, "not known"), a.W), a.W), style(l, &sc.Theme))
			if l.Object != 0 && a.W-x > 4 {
				a.Put(x+1, 0, canvas.CutLeft(fmt.Sprintf("0x%x", l.Object), a.W-x-1), sc.Theme.Dimmed())
			}
		}},
		{Title: "waited", Width: widget.Wide(7), Right: true, Text: func(l lockRow, sc *scene.Scene) (string, canvas.Style) {
			if l.cost.WaitedNS == 0 {
				return "–", sc.Theme.Dimmed()
			}
			return units.Duration(l.cost.WaitedNS), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Lock]), Attr: canvas.Bold}
		}},
		{Title: "waiters", Short: "n", Width: widget.Wide(3, scene.WideWidth, 7), Right: true, Text: func(l lockRow, sc *scene.Scene) (string, canvas.Style) {
			st := sc.Theme.Dimmed()
			if l.Exclusive {
				st = canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Lock]), Attr: canvas.Bold}
			}
			return units.Count(int64(len(l.Waiters))), st
		}},
		{Title: "longest", Width: widget.Wide(7, scene.WideWidth, 8), Right: true, Text: figure(func(l lockRow) string {
			return known(l.Longest())
		})},
		{Title: "holder", Width: widget.Wide(8, scene.WideWidth, 11, 160, 16), Tail: true, Text: holderText,
			Spans: func(l lockRow) bool { return !l.Exclusive && l.Holder == 0 }},
		{Title: "its state", Width: widget.Wide(0, scene.WideWidth, 9, 160, 19), Draw: func(a canvas.Area, l lockRow, sc *scene.Scene) {
			if l.Holder == 0 {
				return
			}
			text := holderIs(l.HolderState)
			if canvas.Width(text) > a.W {
				text = l.HolderState.String()
			}
			a.Put(0, 0, canvas.Cut(text, a.W), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[l.HolderState])})
		}},
		{Title: "held now", Short: "held", Width: widget.Wide(7, scene.WideWidth, 8), Right: true, Text: figure(lockRow.heldNow)},
		{Title: "p50", Width: widget.Wide(0, 160, 7), Right: true, Text: held(0)},
		{Title: "p95", Width: widget.Wide(7), Right: true, Text: held(1)},
		{Title: "max", Width: widget.Wide(0, scene.WideWidth, 7), Right: true, Text: held(2)},
		{Title: "taken/s", Short: "/s", Width: widget.Wide(5, scene.WideWidth, 7), Right: true, Text: figure(lockRow.perSecond)},
		{Title: "taken at", Width: widget.Wide(widget.Rest), Least: 8, Draw: func(a canvas.Area, l lockRow, sc *scene.Scene) {
			l.taken.draw(a, &sc.Theme)
		}},
		{Title: "the holder is in", Width: widget.Wide(0, 160, widget.Rest),
			Text: func(l lockRow, sc *scene.Scene) (string, canvas.Style) {
				return whereIs(sc.Dict, l.HolderStack), style(l, &sc.Theme)
			}},
	}
}

// holderText names the thread that holds a lock, or says why no thread does.
func holderText(l lockRow, sc *scene.Scene) (string, canvas.Style) {
	switch {
	case l.Holder != 0:
		return gvl.ThreadName(l.Holder, sc.Dict), sc.Theme.Bold()
	case len(l.Waiters) == 0:
		return "–", sc.Theme.Dimmed()
	case l.Exclusive:
		return "hand-over", sc.Theme.Dimmed()
	}
	if sc.Findings.Pool(l.Waiters) {
		return fmt.Sprintf("%d wait for others to return it (!)", len(l.Waiters)), sc.Theme.Bold()
	}
	if l.full(sc) {
		return units.Plural(len(l.Waiters), "thread waits", "threads wait") + " for room: it is full", sc.Theme.Bold()
	}
	if n := l.atWork(sc); n > 0 {
		return units.Plural(n, "thread waits in a request or job", "threads wait in requests or jobs"), sc.Theme.Bold()
	}
	return units.Plural(len(l.Waiters), "idle thread waits", "idle threads wait") + " for work here", sc.Theme.Dimmed()
}

// full reports whether the lock is a full queue. If it is, its waiting threads want to put something into it, and not
// to take something out.
func (l *lockRow) full(sc *scene.Scene) bool {
	i := slices.IndexFunc(sc.States, func(ts gvl.ThreadState) bool { return ts.Thread == l.Waiters[0] })
	if i < 0 || l.Kind != "SizedQueue" || sc.States[i].Stack == 0 {
		return false
	}
	_, frame := sc.Dict.Stack(sc.States[i].Stack)
	return strings.HasSuffix(sc.Dict.Frame(frame).Label, "SizedQueue#push")
}

// atWork returns how many of the waiting threads are in the middle of a request or a job. These threads must not be
// called idle.
func (l *lockRow) atWork(sc *scene.Scene) (n int) {
	if sc.Moment == nil {
		return 0
	}
	for i := range sc.Moment.Threads {
		if t := &sc.Moment.Threads[i]; t.Serving.Work != 0 && slices.Contains(l.Waiters, t.ID) {
			n++
		}
	}
	return n
}

// addressWidth is the number of columns for the end of a lock's address, including the space before it.
const addressWidth = 6

// kindIn returns the kind of a lock, such as Mutex, for a column of width w. It shortens the kind if there is no room
// for the lock's address after it.
func kindIn(kind string, w int) string {
	if kind == "ConditionVariable" && w < canvas.Width(kind)+addressWidth {
		return "CondVar"
	}
	return kind
}

func (p *Page) drawLocks(a canvas.Area, sc *scene.Scene) {
	if a.H < 1 {
		return
	}
	p.Locks.Draw(a, sc, true, func(scene.Host, lockRow, int) tea.Cmd { return nil })
	if len(p.Locks.Rows) == 0 {
		text := "no thread waits for a lock, a queue or another thread now"
		if p.ShortLocks > 0 {
			text += " for " + units.Duration(int64(sc.Opt.WaitThreshold)) + " or longer (--wait-threshold)"
		}
		a.Put(1, 1, canvas.Cut(text, a.W-2), sc.Theme.Dimmed())
	}
}

// holderIs returns what a lock's holder does.
func holderIs(s gvl.State) string {
	if s == gvl.Waiting {
		return "waiting for the GVL"
	}
	return s.String()
}

// whereIs returns the innermost Ruby function of a stack, with its file and line.
func whereIs(dict *sampler.Dictionary, stack sampler.StackID) string {
	p, line := flamegraph.PlaceOf(dict, stack)
	if p.Path == "" {
		return p.String()
	}
	return style.CodeLine(p.String(), style.LineIn(p.Path, line, false))
}

// placeColumns are the columns of the table of places. A place is code that made threads wait for the GVL.
func (p *Page) placeColumns() []widget.Column[placeRow] {
	return []widget.Column[placeRow]{
		{Title: "share", Width: widget.Wide(5), Right: true, Text: func(b placeRow, sc *scene.Scene) (string, canvas.Style) {
			return units.Percent(style.Share(b.NS, p.WaitNS)), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Waiting]), Attr: canvas.Bold}
		}},
		{Width: func(screen int) int { return screen / 8 }, Draw: func(a canvas.Area, b placeRow, sc *scene.Scene) {
			style.DrawBar(a, style.Share(b.NS, p.Places[0].NS), sc.Theme.States[gvl.Waiting])
		}},
		{Title: " waited", Width: widget.Wide(8),
			Text: func(b placeRow, sc *scene.Scene) (string, canvas.Style) {
				return canvas.PadLeft(units.Duration(b.NS), 7), sc.Theme.Plain()
			}},
		{Title: "behind", Width: func(screen int) int { return min(20, screen/6) }, Tail: true,
			Text: func(b placeRow, sc *scene.Scene) (string, canvas.Style) {
				name := gvl.ThreadName(b.Thread, sc.Dict)
				if n := b.Threads - 1; n > 0 {
					name += fmt.Sprintf(" +%d", n)
				}
				return name, sc.Theme.Bold()
			}},
		{Title: "state", Width: widget.Wide(8), Text: func(b placeRow, sc *scene.Scene) (string, canvas.Style) {
			return b.State.String(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[b.State])}
		}},
		{Title: "code", Width: widget.Wide(widget.Rest), Draw: func(a canvas.Area, b placeRow, sc *scene.Scene) { widget.DrawPlace(a, b.PlaceSum, &sc.Theme) }},
	}
}

func (p *Page) drawBlame(a canvas.Area, sc *scene.Scene) {
	if a.H < 2 {
		return
	}
	t := &sc.Theme
	title := " no thread waited for the GVL "
	if n, of := p.topShare(); n > 0 {
		places := fmt.Sprintf("the first %d places", n)
		if n == 1 {
			places = "the first place"
		}
		title = fmt.Sprintf(" blame: %s caused %s of all waiting for the GVL ", places, units.Percent(of))
	}
	x := t.Heading(a, title)
	if nobody := style.Share(p.NobodyNS, p.WaitNS); nobody >= 0.01 {
		for _, s := range []string{"─ %s while no thread held it ", "─ %s without holder "} {
			if s = fmt.Sprintf(s, units.Percent(nobody)); canvas.Width(s) < a.W-x {
				a.Put(x, 0, s, t.Dimmed())
				break
			}
		}
	}
	rows := a.Sub(0, 1, a.W, a.H-1)
	if text := sc.Figures.WaitsText(); text != "" && rows.H > 1 {
		rows.Put(1, 0, canvas.Cut(text, a.W-2), t.Dimmed())
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	if len(p.Places) > 0 && a.H >= 10 { // draw the head if enough rows remain
		p.ByPlace.DrawHead(rows.Row(0), sc)
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	p.ByPlace.DrawRows(rows, sc, true, func(scene.Host, placeRow, int) tea.Cmd { return nil })
	if rows.Y > a.Y+1 { // draw this text only if there is a row for it
		a.PutRight(1, p.ByPlace.Hidden(), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	}
}
