package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// timelineView lists all threads with their past. Selection and opened groups are kept by name and id, so that they
// survive threads that come and go.
type timelineView struct {
	selected rowKey
	opened   map[string]bool // what the person chose, by group
	top      int             // first row drawn
	drawn    int             // rows drawn

	threads []threadRow
	rows    []row
	lanes   []lane
	idents  idents
	// fromNS and toNS are the edges of the time axis.
	fromNS, toNS int64
	cells        int // of the time axis
	visible      []row
	frameCells   *frameCells        // nil: the rows show all states
	ids          []sampler.ThreadID // of cellsOf
}

// rowKey names a row: a thread, or a group by its pattern.
type rowKey struct {
	thread sampler.ThreadID
	group  string
}

// threadRow is a thread as the timeline shows it.
type threadRow struct {
	id     sampler.ThreadID
	name   string
	ractor sampler.RactorID
	state  gvl.ThreadState
	// known: state holds, with its detail. seen: of state only State holds, taken from the last column.
	known, seen bool
	totals      [gvl.NumStates]int64
	active      bool
}

// row is a line of the list: a thread, a group's head, or a member of an opened group.
type row struct {
	key     rowKey
	name    string
	members []int // indexes into threads
	isGroup bool
	open    bool
	inGroup bool
	totals  [gvl.NumStates]int64
	cells   []gvl.Cell
	now     string
	state   gvl.State // of a thread now
	ident   int       // of a thread in the GVL lane; 0: none
	holds   bool      // it holds the GVL now
}

func (w row) id() rowKey { return w.key }

// lane is one ractor's GVL over time.
type lane struct {
	label  string
	ractor sampler.RactorID
	cells  []gvl.OwnerCell
	owner  []int // ident of each cell's owner
}

// activeShare is the part of its time that a thread must have been seen neither parked nor asleep to be listed among
// the active ones.
const activeShare = 0.005

// loadThreads reads which threads there are between two times, and their totals. states are those at the end of that time,
// nil when they are not known.
func (v *timelineView) loadThreads(r *reading, states []gvl.ThreadState, fromNS, toNS int64) {
	v.fromNS, v.toNS = fromNS, toNS
	v.threads = v.threads[:0]
	now := make(map[sampler.ThreadID]int, len(states))
	for i := range states {
		now[states[i].Thread] = i
	}
	for _, id := range r.Timeline.Threads(nil, fromNS, toNS) {
		t := threadRow{id: id, totals: r.Timeline.Totals(id, fromNS, toNS)}
		info, _ := r.Dict.Thread(id)
		t.name, t.ractor = gvl.NameOf(id, info), info.Ractor
		if i, ok := now[id]; ok {
			t.state, t.known, t.seen = states[i], true, true
		} else if states == nil {
			t.state.State, t.seen = lastState(r.Timeline, id, toNS)
		}
		var listed, idle int64
		for s, ns := range t.totals {
			listed += ns
			if gvl.State(s).Idle() || gvl.State(s) == gvl.Unknown {
				idle += ns
			}
		}
		t.active = float64(listed-idle) > activeShare*float64(listed)
		v.threads = append(v.threads, t)
	}
}

// lastState is what is known of a thread's state at a moment in the past: the largest share of the kept column before it.
func lastState(tl *gvl.Timeline, id sampler.ThreadID, ns int64) (gvl.State, bool) {
	for _, c := range tl.Row(id, ns-tl.ColumnNS(), ns, 1) {
		if c.Listed() > 0 {
			return c.Dominant, true
		}
	}
	return gvl.Unknown, false
}

// buildRows makes the list of rows. Groups that were neither opened nor closed by hand are opened in their order while
// the list stays within budget rows.
func (v *timelineView) buildRows(budget int) {
	names := make([]string, len(v.threads))
	for i := range v.threads {
		names[i] = v.threads[i].name
	}
	groups := groupThreads(names)
	tier := func(g *group) int {
		for _, i := range g.members {
			if v.threads[i].active {
				return 0
			}
		}
		return 1
	}
	slices.SortStableFunc(groups, func(x, y group) int { return cmp.Compare(tier(&x), tier(&y)) })
	v.rows = v.rows[:0]
	open := v.openGroups(groups, budget)
	for _, g := range groups {
		if len(v.rows) >= maxRows {
			break
		}
		if g.name == "" {
			v.rows = append(v.rows, v.threadRow(g.members[0], false))
			continue
		}
		head := row{key: rowKey{group: g.name}, name: fmt.Sprintf("%s ×%d", g.name, len(g.members)), members: g.members, isGroup: true}
		head.open = open[g.name]
		for _, i := range g.members {
			for s, ns := range v.threads[i].totals {
				head.totals[s] += ns
			}
		}
		v.rows = append(v.rows, head)
		if head.open {
			for _, i := range g.members {
				v.rows = append(v.rows, v.threadRow(i, true))
			}
		}
	}
}

func (v *timelineView) threadRow(i int, inGroup bool) row {
	t := &v.threads[i]
	return row{key: rowKey{thread: t.id}, name: t.name, members: []int{i}, inGroup: inGroup, totals: t.totals, state: t.state.State}
}

// openGroups decides which groups are open.
func (v *timelineView) openGroups(groups []group, budget int) map[string]bool {
	open := make(map[string]bool)
	rows := len(groups)
	for _, g := range groups {
		if g.name != "" && v.opened[g.name] {
			open[g.name] = true
			rows += len(g.members)
		}
	}
	for _, g := range groups {
		_, chosen := v.opened[g.name]
		if g.name != "" && !chosen && rows+len(g.members) <= budget {
			open[g.name] = true
			rows += len(g.members)
		}
	}
	return open
}

// longest is the columns that the longest name needs, its indentation included.
func (v *timelineView) longest() int {
	n := 0
	for i := range v.rows {
		indent := 3
		if v.rows[i].inGroup {
			indent = 5
		}
		n = max(n, indent+canvas.Width(v.rows[i].name))
	}
	return n
}

// index returns the selected row's index; the first row's when the selection is gone.
func (v *timelineView) index() int {
	for i := range v.rows {
		if v.rows[i].key == v.selected {
			return i
		}
	}
	return -1
}

// loadCells reads the past of the rows that are drawn, and the lanes.
func (v *timelineView) loadCells(r *reading, cols, rows int) {
	v.drawn, v.cells = rows, cols
	at := v.index()
	if at < 0 && v.selected != (rowKey{}) {
		at = v.selectNearest()
	}
	if at >= 0 {
		v.top = min(v.top, at)
		v.top = max(v.top, at-rows+1)
	}
	v.top = max(0, min(v.top, len(v.rows)-rows))
	v.visible = v.rows[v.top:min(v.top+rows, len(v.rows))]
	v.loadLanes(r, cols)
	for i := range v.visible {
		w := &v.visible[i]
		w.cells = v.cellsOf(r, w, cols)
		if w.isGroup {
			w.now = v.groupNow(w)
			continue
		}
		t := &v.threads[w.members[0]]
		w.ident = v.idents.of[t.id]
		w.holds = t.known && t.state.State.Held()
		w.now = v.threadNow(r, t, w)
	}
}

// selectNearest moves a selection whose row is gone (its group was closed, the thread ended) to its group or the row
// that took its place.
func (v *timelineView) selectNearest() int {
	for i := range v.rows {
		for _, m := range v.rows[i].members {
			if v.rows[i].isGroup && v.threads[m].id == v.selected.thread {
				v.selected = v.rows[i].key
				return i
			}
		}
	}
	if len(v.rows) == 0 {
		return -1
	}
	i := min(v.top, len(v.rows)-1)
	v.selected = v.rows[i].key
	return i
}

func (v *timelineView) cellsOf(r *reading, w *row, cols int) []gvl.Cell {
	v.ids = v.ids[:0]
	for _, m := range w.members {
		v.ids = append(v.ids, v.threads[m].id)
	}
	return r.Timeline.AppendRows(nil, v.ids, v.fromNS, v.toNS, cols)
}

// urgency is the order in which a group counts its members' states.
var urgency = [...]gvl.State{gvl.Stalled, gvl.GC, gvl.Running, gvl.Waiting, gvl.Lock, gvl.IO, gvl.Native, gvl.Unknown, gvl.Parked, gvl.Sleeping}

func (v *timelineView) groupNow(w *row) string {
	var counts [gvl.NumStates]int
	known := 0
	for _, m := range w.members {
		if t := &v.threads[m]; t.seen {
			counts[t.state.State]++
			known++
		}
	}
	if known == 0 {
		return ""
	}
	parts := make([]string, 0, len(urgency))
	for _, s := range urgency {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	return strings.Join(parts, " · ")
}

// threadNow says what a thread does at the end of the time shown.
func (v *timelineView) threadNow(r *reading, t *threadRow, w *row) string {
	switch {
	case !t.seen:
		return "ended"
	case !t.known:
		return t.state.State.String()
	}
	s := gvl.Describe(t.state, r.Dict)
	switch t.state.State {
	case gvl.Running, gvl.GC, gvl.Native, gvl.Stalled:
		if _, f := r.Dict.Stack(t.state.Stack); f != 0 {
			s += "  " + r.Dict.Frame(f).Label
		}
	}
	return s
}

func (v *timelineView) loadLanes(r *reading, cols int) {
	v.lanes = v.lanes[:0]
	ractors := r.Timeline.Ractors()
	for _, id := range ractors[:min(len(ractors), maxLanes)] {
		l := lane{label: "GVL held by", ractor: id, cells: r.Timeline.Owners(id, v.fromNS, v.toNS, cols)}
		if len(ractors) > 1 {
			l.label = fmt.Sprintf("GVL of ractor %d", id)
		}
		v.lanes = append(v.lanes, l)
	}
	v.idents.assign(v.lanes)
	for i := range v.lanes {
		l := &v.lanes[i]
		for _, c := range l.cells {
			l.owner = append(l.owner, v.idents.of[c.Owner])
		}
	}
}

// roots gives each thread the name of its row: its group's or its own. The flamegraph hangs its stacks from it.
func (v *timelineView) roots() map[sampler.ThreadID]string {
	out := make(map[sampler.ThreadID]string, len(v.threads))
	for i := range v.rows {
		if v.rows[i].inGroup {
			continue
		}
		for _, m := range v.rows[i].members {
			out[v.threads[m].id] = v.rows[i].name
		}
	}
	return out
}
