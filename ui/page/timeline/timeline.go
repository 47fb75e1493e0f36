package timeline

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageTimeline,
	Key:    "3",
	Help:   "threads over the whole screen, with a cursor in time, and with GC, CPU and waiting",
	Shared: page.SearchShared,
	Make:   page.Makes(New),
}

// Page is the timeline over the whole screen. Its cursor marks a moment in time. It has the same rows as the timeline
// of the live view.
type Page struct {
	page.Plain
	Timeline *widget.Timeline
	flame    *widget.Flame
	now      *widget.Now
	// CursorNS is the instant under the cursor. It is zero if there is no cursor.
	CursorNS int64
	// Fine is the timeline with shorter columns than usual. It is for a frozen screen that shows only a short time.
	// asked is the time range for which the page last requested Fine from the history.
	Fine  store.Fine
	asked store.FineRange
	// Close is a view of a short time in which every change of the GVL is known. It replaces the timeline when the user
	// zooms in far enough.
	Close closeView
	// The field at is what the threads did at the cursor's time. askedNS is the time for which the page last requested
	// this from the history.
	at      instant
	askedNS int64

	rowCount int
	laneRows int      // height of each of the lanes of the process
	Span     [2]int64 // the edges of the axis
	process  []timeline.ProcCell
}

// instant is what the threads did at one moment of the history.
type instant struct {
	atNS   int64
	states []gvl.ThreadState
	err    error
}

// fineMsg and instantMsg deliver data that was read from the history.
type (
	fineMsg    store.Fine
	instantMsg instant
)

// ForPage marks fineMsg as a message for pages.
func (fineMsg) ForPage() {}

// ForPage marks instantMsg as a message for pages.
func (instantMsg) ForPage() {}

// processLanes is how many lanes (rows over time) are about the whole process: GC, CPU, waiting. cursorRows is how many
// rows the text about the cursor takes.
const (
	processLanes = 3
	cursorRows   = 2
	// maxLaneRows limits the height of each lane about the whole process. stackRows is how many rows are left for the
	// stack below the timeline.
	maxLaneRows = 4
	stackRows   = 12
)

func New(c *widget.Parts) *Page {
	p := &Page{Timeline: &c.Timeline, flame: &c.Flame, now: &c.Now}
	move := func(h scene.Host, by widget.Step) tea.Cmd { p.Timeline.Move(by); h.Refresh(); return nil }
	cursor := func(n int) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { p.moveCursor(h, n); return p.Fetch(h) }
	}
	zoom := func(d int) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { p.zoom(h, d); return p.Fetch(h) }
	}
	p.KeyMap = scene.KeyMap{Title: "timeline", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"left", "h"}, Show: "← →", Short: "cursor", Help: "move the cursor in time: what each thread did then (also h, l; H, L by ten)", Do: cursor(-1)},
		{Keys: []string{"right", "l"}, Do: cursor(+1)},
		{Keys: []string{"H", "shift+h", "shift+left"}, Do: cursor(-10)},
		{Keys: []string{"L", "shift+l", "shift+right"}, Do: cursor(+10)},
		{Keys: []string{"+", "="}, Show: "+ -", Short: "zoom", Help: "zoom in time around the cursor, down to 10 ms per column, or 10 µs in exact mode", Do: zoom(-1)},
		{Keys: []string{"-", "_"}, Do: zoom(+1)},
		{Keys: []string{"["}, Do: func(h scene.Host) tea.Cmd { p.moveTime(h, -1); return p.Fetch(h) }},
		{Keys: []string{"]"}, Do: func(h scene.Host) tea.Cmd { p.moveTime(h, +1); return p.Fetch(h) }},
		{Keys: []string{"enter"}, Show: "enter", Short: "open", Help: "open the thread; open or close the group", Do: func(h scene.Host) tea.Cmd { return p.Timeline.OpenSelected(h) }},
		{Keys: []string{"esc"}, Show: "esc", Help: "remove the cursor, or leave the search", Do: func(h scene.Host) tea.Cmd {
			switch {
			case p.Close.On():
				p.Close = closeView{}
				h.Refresh()
				return p.Fetch(h)
			case p.CursorNS == 0 && p.flame.Search != nil:
				p.flame.Search = nil
				h.Refresh()
			}
			p.CursorNS = 0
			return nil
		}},
	}, widget.CursorKeys("", "select a thread or group", move))}
	return p
}

// CellNS returns how much time a column of the timeline shows, in ns.
func (p *Page) CellNS(sc *scene.Scene) int64 {
	return max((p.Span[1]-p.Span[0])/int64(max(p.Timeline.Cells, 1)), 1)
}

// moveCursor moves the cursor by n columns, and freezes the screen. If the cursor would leave the time on the screen,
// the screen moves to an earlier or later time.
func (p *Page) moveCursor(h scene.Host, n int) {
	if h.Showing().LastNS == 0 {
		return
	}
	frozen, atNS := h.Showing().Frozen, h.Showing().AtNS
	h.Showing().Freeze()
	each := p.CellNS(h.Showing())
	if p.CursorNS < p.Span[0] || p.CursorNS > p.Span[1] {
		p.CursorNS = p.Span[1] - each/2
	} else {
		p.CursorNS += int64(n) * each
	}
	p.CursorNS = max(h.Showing().OldestNS, min(p.CursorNS, h.Showing().LastNS-1))
	if p.Close.On() {
		if p.CursorNS < p.Span[0] {
			p.Close.fromNS -= p.Span[0] - p.CursorNS + each
		} else if p.CursorNS >= p.Span[1] {
			p.Close.fromNS += p.CursorNS - p.Span[1] + each
		}
		p.pan(h, 0)
		return
	}
	if p.CursorNS < p.Span[0] {
		h.Showing().AtNS -= p.Span[0] - p.CursorNS + each
	} else if p.CursorNS >= p.Span[1] {
		h.Showing().AtNS += p.CursorNS - p.Span[1] + each
	}
	h.Showing().AtNS = h.Showing().Bounded(h.Showing().AtNS)
	if !frozen || h.Showing().AtNS != atNS { // otherwise only the cursor needs drawing
		h.Refresh()
	}
}

// press handles a click on the timeline. It selects the clicked row, and puts the cursor at the clicked time. y is
// relative to the first row of the timeline.
func (p *Page) press(h scene.Host, x, y int) tea.Cmd {
	v, g := p.Timeline, &h.Showing().Regions
	if y >= 0 && y < len(v.Visible) {
		w := &v.Visible[y]
		v.Selected = w.Key
		if w.IsGroup && x <= widget.GroupSign {
			v.Expand(!w.Open)
		}
	}
	if i := widget.CellAt(x-g.CellsX, v.Cells, g.CellsW); x >= g.CellsX && i >= 0 {
		each := p.CellNS(h.Showing())
		p.setCursor(h, p.Span[0]+int64(i)*each+each/2)
	}
	h.Refresh()
	return p.Fetch(h)
}

// setCursor puts the cursor at a moment of the history. This freezes the screen.
func (p *Page) setCursor(h scene.Host, ns int64) {
	if !h.Showing().Frozen {
		// freeze the screen, so that the clicked row and time do not move away from the mouse
		h.Showing().Frozen, h.Showing().AtNS = true, min(p.Span[1], h.Showing().LastNS)
	}
	p.CursorNS = max(h.Showing().OldestNS, min(ns, h.Showing().LastNS-1))
}

// AxisArea returns the area of the time axis. It includes the rows of the threads and the lanes below the axis.
func (p *Page) AxisArea(a canvas.Area, sc *scene.Scene) canvas.Area {
	g := &sc.Regions
	return a.Sub(g.CellsX, 0, g.CellsW, 1+p.rowCount+min(len(p.Timeline.Lanes), scene.MaxLanes)+p.laneRows*processLanes)
}

func (p *Page) Wheel(h scene.Host, _, _, d int, onAxis bool) (tea.Cmd, bool) {
	if !onAxis {
		return nil, false
	}
	p.zoom(h, d)
	return p.Fetch(h), true
}

// zoom makes the time on the screen longer (d is +1) or shorter (-1). The time under the cursor stays in the same
// column.
func (p *Page) zoom(h scene.Host, d int) {
	if p.zoomClose(h, d) {
		h.Refresh()
		return
	}
	before := h.Showing().WindowNS
	at := p.CursorNS
	h.Showing().Zoom(d)
	if at != 0 && h.Showing().WindowNS != before {
		place := style.Share(at-p.Span[0], p.Span[1]-p.Span[0])
		h.Showing().AtNS = h.Showing().Bounded(at + int64((1-place)*float64(h.Showing().WindowNS)))
	}
	h.Refresh()
}

// moveTime makes the screen show a time that is d steps later (or earlier, if d is negative). In the close view (zoomed
// to a short time), a step is a third of its width.
func (p *Page) moveTime(h scene.Host, d int64) {
	if p.Close.On() {
		p.pan(h, d*int64(h.Showing().Regions.CellsW)/waitParts)
		return
	}
	h.Showing().Move(d * h.Showing().StepNS())
	h.Refresh()
}

// wantsFine returns the time range for which the page needs a timeline with shorter columns. This timeline must be
// computed from the history's samples. wantsFine returns false if the columns of the usual timeline are short enough.
func (p *Page) wantsFine(sc *scene.Scene) (store.FineRange, bool) {
	if c := &p.Close; c.On() {
		return store.FineRange{FromNS: c.fromNS, ToNS: c.fromNS + c.ColumnNS*int64(sc.Regions.CellsW), ColumnNS: c.ColumnNS}, true
	}
	return store.FineRange{FromNS: sc.AtNS - sc.WindowNS - sc.WindowNS/widget.BlankShare, ToNS: sc.AtNS, ColumnNS: store.FineColumnNS}, sc.Frozen && sc.WindowNS <= store.MaxFineNS
}

// Fetch returns the commands that read the history. One command reads the timeline with shorter columns. The other
// reads what the threads did at the cursor's time.
func (p *Page) Fetch(h scene.Host) tea.Cmd {
	var cmds []tea.Cmd
	store := h.Store()
	if want, ok := p.wantsFine(h.Showing()); ok && want != p.asked {
		p.asked = want
		cmds = append(cmds, func() tea.Msg { return fineMsg(store.Fine(want)) })
	}
	if at := p.CursorNS; at != 0 && at != p.askedNS {
		p.askedNS = at
		cmds = append(cmds, func() tea.Msg {
			_, states, err := store.Moment(at)
			return instantMsg{at, states, err}
		})
	}
	return tea.Batch(cmds...)
}

// Fetched stores what the commands of Fetch have read. If the user has since moved to another time, the page needs
// other data, and Fetched stores nothing.
func (p *Page) Fetched(h scene.Host, msg tea.Msg) {
	switch msg := msg.(type) {
	case fineMsg:
		if msg.FineRange == p.asked {
			p.Fine = store.Fine(msg)
			h.Refresh()
		}
	case instantMsg:
		if msg.atNS == p.CursorNS {
			p.at = instant(msg)
			h.Draw()
		}
	}
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	lanes := min(len(r.Timeline.Ractors()), scene.MaxLanes)
	room := sc.BodyRows() - 1 - lanes - processLanes - cursorRows
	p.within(sc)
	v := p.Timeline
	v.BuildRows(sc.Threads, room)
	p.rowCount = max(1, min(len(v.Rows), room))
	p.laneRows = 1 + max(0, min((room-p.rowCount-stackRows)/processLanes, maxLaneRows-1))
	cells, span := scene.Axis(sc.AxisNS(), sc.Regions.CellsW, r.Timeline.ColumnNS())
	from := r
	p.Span[0], p.Span[1] = sc.TimeWindow(r.Timeline, span, cells)
	if p.Close.On() {
		cells, p.Span[0] = sc.Regions.CellsW, p.Close.fromNS
		p.Span[1] = p.Span[0] + p.Close.ColumnNS*int64(cells)
	}
	if want, ok := p.wantsFine(sc); ok && p.Fine.Err == nil && p.Fine.Timeline != nil && p.Fine.FineRange == want {
		view := *r.View
		view.Timeline = p.Fine.Timeline
		copied := *r
		copied.View = &view
		from = &copied
		if !p.Close.On() {
			cells, span = scene.Axis(sc.AxisNS(), sc.Regions.CellsW, store.FineColumnNS)
			p.Span[0], p.Span[1] = from.Timeline.Window(sc.AtNS, span, cells)
		}
	}
	v.FromNS, v.ToNS = p.Span[0], p.Span[1]
	v.LoadCells(sc, from, cells, p.rowCount)
	if p.Close.On() {
		p.loadClose()
	}
	p.process = from.Timeline.Process(p.Span[0], p.Span[1], cells)
}

func (p *Page) About(sc *scene.Scene) string {
	column, known := units.Duration(p.CellNS(sc))+" a column", sc.ExactSpans.Words(p.Span[0], p.Span[1])
	parts := []string{sc.When(), column, known}
	if p.Close.On() {
		parts = []string{column, known, units.Duration(p.Span[1]-p.Span[0]) + " from " + sc.Process.WallTime(p.Span[0]).Format("15:04:05.000000")}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, style.Between)
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) { return p.Timeline.Detail(sc) }

// Under returns the state of a thread at the cursor's time. ok is false if the state has not been read yet, or if the
// thread did not exist at this time.
func (p *Page) Under(id sampler.ThreadID) (gvl.ThreadState, bool) {
	if p.at.atNS != p.CursorNS || p.CursorNS == 0 {
		return gvl.ThreadState{}, false
	}
	i := slices.IndexFunc(p.at.states, func(s gvl.ThreadState) bool { return s.Thread == id })
	if i < 0 {
		return gvl.ThreadState{}, false
	}
	return p.at.states[i], true
}

// Stack returns the selected thread's stack at the cursor's time. Without a cursor it returns the present stack.
func (p *Page) Stack(sc *scene.Scene) (string, []string) {
	th := p.Timeline.Chosen()
	if th == nil || p.CursorNS == 0 {
		return sc.ThreadStack(th)
	}
	st, ok := p.Under(th.ID)
	if !ok {
		return "", nil
	}
	at := sc.Process.WallTime(p.CursorNS).Format(" (15:04:05.000)")
	return canvas.Clean(th.Name+": "+gvl.Describe(st, sc.Dict)) + at, sc.FrameLines(st)
}
