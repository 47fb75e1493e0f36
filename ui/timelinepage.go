package ui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// timelinePage is the timeline over the whole screen, with a cursor in time. Its rows are those of the live view.
type timelinePage struct {
	plainPage
	timeline *timelineView
	flame    *flameView
	now      *nowView
	// cursorNS is the instant under the cursor; 0: no cursor.
	cursorNS int64
	// fine is the picture in short columns, made when the frozen stretch of time is short; asked is what was asked for.
	fine  store.Fine
	asked store.FineRange
	// close is the part of the time shown that is drawn instead, where it is known exactly and somebody zoomed in so far.
	close closeView
	// at is what the threads did at the cursor; askedNS the instant that was asked for.
	at      instant
	askedNS int64

	rowCount int
	laneRows int      // height of each of the lanes of the process
	span     [2]int64 // the edges of the axis
	process  []gvl.ProcCell
}

// instant is what the threads did at a moment of the history.
type instant struct {
	atNS   int64
	states []gvl.ThreadState
	err    error
}

// fineMsg and instantMsg bring what was read from the history.
type (
	fineMsg    store.Fine
	instantMsg instant
)

// ForPage marks it as a message for pages.
func (fineMsg) ForPage() {}

// ForPage marks it as a message for pages.
func (instantMsg) ForPage() {}

// processLanes is the number of lanes under those of the GVL: GC, CPU, waiting; cursorRows describe the cursor.
const (
	processLanes = 3
	cursorRows   = 2
	// maxLaneRows is how high the lanes of the process get where there is room; stackRows of it are kept for the stack.
	maxLaneRows = 4
	stackRows   = 12
)

func newTimelinePage(c *components) *timelinePage {
	p := &timelinePage{timeline: &c.timeline, flame: &c.flame, now: &c.whereNow}
	move := func(h Host, by step) tea.Cmd { p.timeline.move(by); h.Refresh(); return nil }
	cursor := func(n int) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd { p.moveCursor(h, n); return p.fetch(h) }
	}
	zoom := func(d int) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd { p.zoom(h, d); return p.fetch(h) }
	}
	p.keyMap = keyMap{title: "timeline", bindings: slices.Concat([]binding{
		{keys: []string{"left", "h"}, show: "← →", short: "cursor", help: "move the cursor in time: what each thread did then (also h, l; H, L by ten)", do: cursor(-1)},
		{keys: []string{"right", "l"}, do: cursor(+1)},
		{keys: []string{"H", "shift+h", "shift+left"}, do: cursor(-10)},
		{keys: []string{"L", "shift+l", "shift+right"}, do: cursor(+10)},
		{keys: []string{"+", "="}, show: "+ -", short: "zoom", help: "zoom in time around the cursor, down to 10 ms a column; where exact mode was on down to 10 µs", do: zoom(-1)},
		{keys: []string{"-", "_"}, do: zoom(+1)},
		{keys: []string{"["}, do: func(h Host) tea.Cmd { p.moveTime(h, -1); return p.fetch(h) }},
		{keys: []string{"]"}, do: func(h Host) tea.Cmd { p.moveTime(h, +1); return p.fetch(h) }},
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the thread; open or close the group", do: func(h Host) tea.Cmd { return p.timeline.OpenSelected(h) }},
		{keys: []string{"esc"}, show: "esc", help: "take the cursor away; leave the search", do: func(h Host) tea.Cmd {
			switch {
			case p.close.on():
				p.close = closeView{}
				h.Refresh()
				return p.fetch(h)
			case p.cursorNS == 0 && p.flame.search != nil:
				p.flame.search = nil
				h.Refresh()
			}
			p.cursorNS = 0
			return nil
		}},
	}, cursorKeys("", "select a thread or group", move))}
	return p
}

// cellNS is the length of a column on the screen.
func (p *timelinePage) cellNS(sc *scene) int64 {
	return max((p.span[1]-p.span[0])/int64(max(p.timeline.cells, 1)), 1)
}

// moveCursor moves the cursor by columns; past the edge the picture moves. A cursor freezes the picture.
func (p *timelinePage) moveCursor(h Host, n int) {
	if h.Scene().lastNS == 0 {
		return
	}
	frozen, atNS := h.Scene().frozen, h.Scene().atNS
	h.Scene().freeze()
	each := p.cellNS(h.Scene())
	if p.cursorNS < p.span[0] || p.cursorNS > p.span[1] {
		p.cursorNS = p.span[1] - each/2
	} else {
		p.cursorNS += int64(n) * each
	}
	p.cursorNS = max(h.Scene().oldestNS, min(p.cursorNS, h.Scene().lastNS-1))
	if p.close.on() {
		if p.cursorNS < p.span[0] {
			p.close.fromNS -= p.span[0] - p.cursorNS + each
		} else if p.cursorNS >= p.span[1] {
			p.close.fromNS += p.cursorNS - p.span[1] + each
		}
		p.pan(h, 0)
		return
	}
	if p.cursorNS < p.span[0] {
		h.Scene().atNS -= p.span[0] - p.cursorNS + each
	} else if p.cursorNS >= p.span[1] {
		h.Scene().atNS += p.cursorNS - p.span[1] + each
	}
	h.Scene().atNS = h.Scene().bounded(h.Scene().atNS)
	if !frozen || h.Scene().atNS != atNS { // otherwise only the cursor is drawn again
		h.Refresh()
	}
}

// press selects the row that was clicked (y is of the rows), and over the time axis puts the cursor there.
func (p *timelinePage) press(h Host, x, y int) tea.Cmd {
	v, g := p.timeline, &h.Scene().regions
	if y >= 0 && y < len(v.visible) {
		w := &v.visible[y]
		v.selected = w.key
		if w.isGroup && x <= groupSign {
			v.expand(!w.open)
		}
	}
	if i := cellAt(x-g.cellsX, v.cells, g.cellsW); x >= g.cellsX && i >= 0 {
		each := p.cellNS(h.Scene())
		p.setCursor(h, p.span[0]+int64(i)*each+each/2)
	}
	h.Refresh()
	return p.fetch(h)
}

// setCursor puts the cursor at a moment of the history. A cursor freezes the picture.
func (p *timelinePage) setCursor(h Host, ns int64) {
	if !h.Scene().frozen {
		h.Scene().frozen, h.Scene().atNS = true, min(p.span[1], h.Scene().lastNS) // nothing moves away from the mouse
	}
	p.cursorNS = max(h.Scene().oldestNS, min(ns, h.Scene().lastNS-1))
}

// axisArea is the time axis with the lanes under it, the rows of the threads included.
func (p *timelinePage) axisArea(a canvas.Area, sc *scene) canvas.Area {
	g := &sc.regions
	return a.Sub(g.cellsX, 0, g.cellsW, 1+p.rowCount+min(len(p.timeline.lanes), maxLanes)+p.laneRows*processLanes)
}

func (p *timelinePage) wheel(h Host, _, _, d int, onAxis bool) (tea.Cmd, bool) {
	if !onAxis {
		return nil, false
	}
	p.zoom(h, d)
	return p.fetch(h), true
}

// zoom makes the stretch of time longer (+1) or shorter (-1); the cursor stays where it is on the screen.
func (p *timelinePage) zoom(h Host, d int) {
	if p.zoomClose(h, d) {
		h.Refresh()
		return
	}
	before := h.Scene().windowNS
	at := p.cursorNS
	h.Scene().zoom(d)
	if at != 0 && h.Scene().windowNS != before {
		place := style.Share(at-p.span[0], p.span[1]-p.span[0])
		h.Scene().atNS = h.Scene().bounded(at + int64((1-place)*float64(h.Scene().windowNS)))
	}
	h.Refresh()
}

// moveTime moves the time shown by a step, or by a third of the close picture.
func (p *timelinePage) moveTime(h Host, d int64) {
	if p.close.on() {
		p.pan(h, d*int64(h.Scene().regions.cellsW)/waitParts)
		return
	}
	h.Scene().move(d * h.Scene().stepNS())
	h.Refresh()
}

// wantsFine returns the stretch of time that the picture is to be made of from the history itself; false: of none.
func (p *timelinePage) wantsFine(sc *scene) (store.FineRange, bool) {
	if c := &p.close; c.on() {
		return store.FineRange{FromNS: c.fromNS, ToNS: c.fromNS + c.columnNS*int64(sc.regions.cellsW), ColumnNS: c.columnNS}, true
	}
	return store.FineRange{FromNS: sc.atNS - sc.windowNS - sc.windowNS/blankShare, ToNS: sc.atNS, ColumnNS: store.FineColumnNS}, sc.frozen && sc.windowNS <= store.MaxFineNS
}

// fetch returns the commands that read the history: the fine picture, and the instant under the cursor.
func (p *timelinePage) fetch(h Host) tea.Cmd {
	var cmds []tea.Cmd
	store := h.Store()
	if want, ok := p.wantsFine(h.Scene()); ok && want != p.asked {
		p.asked = want
		cmds = append(cmds, func() tea.Msg { return fineMsg(store.Fine(want)) })
	}
	if at := p.cursorNS; at != 0 && at != p.askedNS {
		p.askedNS = at
		cmds = append(cmds, func() tea.Msg {
			_, states, err := store.Moment(at)
			return instantMsg{at, states, err}
		})
	}
	return tea.Batch(cmds...)
}

// fetched keeps what was read if it is still what is wanted.
func (p *timelinePage) fetched(h Host, msg tea.Msg) {
	switch msg := msg.(type) {
	case fineMsg:
		if msg.FineRange == p.asked {
			p.fine = store.Fine(msg)
			h.Refresh()
		}
	case instantMsg:
		if msg.atNS == p.cursorNS {
			p.at = instant(msg)
			h.Draw()
		}
	}
}

func (p *timelinePage) load(sc *scene, r *store.Reading) {
	lanes := min(len(r.Timeline.Ractors()), maxLanes)
	room := sc.bodyRows() - 1 - lanes - processLanes - cursorRows
	p.within(sc)
	v := p.timeline
	v.buildRows(sc.threads, room)
	p.rowCount = max(1, min(len(v.rows), room))
	p.laneRows = 1 + max(0, min((room-p.rowCount-stackRows)/processLanes, maxLaneRows-1))
	cells, span := axis(sc.axisNS(), sc.regions.cellsW, r.Timeline.ColumnNS())
	from := r
	p.span[0], p.span[1] = sc.timeWindow(r.Timeline, span, cells)
	if p.close.on() {
		cells, p.span[0] = sc.regions.cellsW, p.close.fromNS
		p.span[1] = p.span[0] + p.close.columnNS*int64(cells)
	}
	if want, ok := p.wantsFine(sc); ok && p.fine.Err == nil && p.fine.Timeline != nil && p.fine.FineRange == want {
		view := *r.View
		view.Timeline = p.fine.Timeline
		copied := *r
		copied.View = &view
		from = &copied
		if !p.close.on() {
			cells, span = axis(sc.axisNS(), sc.regions.cellsW, store.FineColumnNS)
			p.span[0], p.span[1] = from.Timeline.Window(sc.atNS, span, cells)
		}
	}
	v.fromNS, v.toNS = p.span[0], p.span[1]
	v.loadCells(sc, from, cells, p.rowCount)
	if p.close.on() {
		p.loadClose()
	}
	p.process = from.Timeline.Process(p.span[0], p.span[1], cells)
}

func (p *timelinePage) about(sc *scene) string {
	column, known := units.Duration(p.cellNS(sc))+" a column", sc.exactSpans.Words(p.span[0], p.span[1])
	parts := []string{sc.when(), column, known}
	if p.close.on() {
		parts = []string{column, known, units.Duration(p.span[1]-p.span[0]) + " from " + sc.process.WallTime(p.span[0]).Format("15:04:05.000000")}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, between)
}

func (p *timelinePage) detail(sc *scene) (name, rest string) { return p.timeline.detail(sc) }

// under returns the state of a thread at the cursor; ok is false while it is being read, and for one that was not there.
func (p *timelinePage) under(id sampler.ThreadID) (gvl.ThreadState, bool) {
	if p.at.atNS != p.cursorNS || p.cursorNS == 0 {
		return gvl.ThreadState{}, false
	}
	i := slices.IndexFunc(p.at.states, func(s gvl.ThreadState) bool { return s.Thread == id })
	if i < 0 {
		return gvl.ThreadState{}, false
	}
	return p.at.states[i], true
}

// stack is that of the instant under the cursor, where there is one.
func (p *timelinePage) stack(sc *scene) (string, []string) {
	th := p.timeline.chosen()
	if th == nil || p.cursorNS == 0 {
		return sc.threadStack(th)
	}
	st, ok := p.under(th.id)
	if !ok {
		return "", nil
	}
	at := sc.process.WallTime(p.cursorNS).Format(" (15:04:05.000)")
	return canvas.Clean(th.name+": "+gvl.Describe(st, sc.dict)) + at, sc.frameLines(st)
}
