package ui

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// timelineView lists all threads with their past. Selection and opened groups are kept by name and id, so that they
// survive threads that come and go.
type timelineView struct {
	*selection
	list[row, rowKey]
	opened map[string]bool // what the person chose, by group

	threads threadList // the scene's
	lanes   []lane
	idents  idents
	// fromNS and toNS are the edges of the time axis.
	fromNS, toNS int64
	cells        int // of the time axis
	rootOf       map[sampler.ThreadID]string
	visible      []row
	shares       shareColumns
	frameCells   *frameCells        // nil: the rows show all states
	ids          []sampler.ThreadID // of cellsOf
	// past are the cells of the rows of the last picture, shown those of this one while it is loaded.
	past, shown map[rowKey]*gvl.RowCells
}

func newTimelineView(s *selection) timelineView {
	return timelineView{selection: s, list: list[row, rowKey]{cursor: &s.selected}, opened: make(map[string]bool)}
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
	now     []string  // in words, the fullest form first
	state   gvl.State // of a thread now
	ident   int       // of a thread in the GVL lane; 0: none
	holds   bool      // it holds the GVL now
	listens bool      // in io it rests; of a group, all that are in io do
	then    bool      // now is of a moment of the time axis
}

// words are those of now in full; "": not known.
func (w *row) words() string {
	if len(w.now) == 0 {
		return ""
	}
	return w.now[0]
}

func (w row) id() rowKey { return w.key }

// lane is one ractor's GVL over time.
type lane struct {
	label  string
	ractor sampler.RactorID
	cells  []gvl.OwnerCell
	owner  []int // ident of each cell's owner
	own    bool  // they are of another stretch of time than the threads' totals
}

// buildRows makes the list of rows. Groups that were neither opened nor closed by hand are opened in their order while
// the list stays within budget rows.
func (v *timelineView) buildRows(threads threadList, budget int) {
	v.threads = threads
	names := make([]string, len(v.threads))
	for i := range v.threads {
		names[i] = v.threads[i].name
	}
	groups := groupThreads(names)
	v.rootOf = make(map[sampler.ThreadID]string, len(v.threads))
	for _, g := range groups {
		for _, i := range g.members {
			if v.rootOf[v.threads[i].id] = v.threads[i].name; g.name != "" {
				v.rootOf[v.threads[i].id] = fmt.Sprintf("%s ×%d", g.name, len(g.members))
			}
		}
	}
	groups = threads.listedOf(groups)
	tier := func(g *group) int {
		if v.threads.anyActive(g.members, v.toNS-v.fromNS) {
			return 0
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
			v.rows = append(v.rows, v.threads.row(g.members[0], false))
			continue
		}
		head := row{key: rowKey{group: g.name}, name: fmt.Sprintf("%s ×%d", g.name, len(g.members)), members: g.members, isGroup: true}
		head.open = open[g.name]
		head.listens = true
		for _, i := range g.members {
			head.listens = head.listens && (v.threads[i].listens || v.threads[i].totals[gvl.IO] == 0)
			for s, ns := range v.threads[i].totals {
				head.totals[s] += ns
			}
		}
		v.rows = append(v.rows, head)
		if head.open {
			for _, i := range g.members {
				v.rows = append(v.rows, v.threads.row(i, true))
			}
		}
	}
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
		if g.name != "" && !chosen && rows+len(g.members) <= budget && !v.threads.mostlyGone(g.members) {
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

// loadCells reads the past of the rows that are drawn, and the lanes.
func (v *timelineView) loadCells(sc *scene, r *store.Reading, cols, rows int) {
	v.cells = cols
	v.selectGroup()
	v.visible = v.scroll(rows)
	v.loadLanes(r, cols)
	if v.shown == nil {
		v.shown, v.past = make(map[rowKey]*gvl.RowCells), make(map[rowKey]*gvl.RowCells)
	}
	clear(v.shown)
	defer func() { v.past, v.shown = v.shown, v.past }()
	for i := range v.visible {
		w := &v.visible[i]
		w.cells = v.cellsOf(r, w, cols)
		if w.isGroup {
			w.now = []string{v.threads.states(w.members).String()}
			continue
		}
		t := &v.threads[w.members[0]]
		w.ident = v.idents.of[t.id]
		w.holds = t.known && t.state.State.Held()
		w.now = threadNow(r, t, sc.requestOf(t.id))
	}
}

// selectGroup moves a selection whose row is gone because its group was closed to the group.
func (v *timelineView) selectGroup() {
	if v.index() >= 0 {
		return
	}
	for i := range v.rows {
		for _, m := range v.rows[i].members {
			if v.rows[i].isGroup && v.threads[m].id == v.selected.thread {
				v.selected = v.rows[i].key
				return
			}
		}
	}
}

func (v *timelineView) cellsOf(r *store.Reading, w *row, cols int) []gvl.Cell {
	v.ids = v.ids[:0]
	for _, m := range w.members {
		v.ids = append(v.ids, v.threads[m].id)
	}
	past := v.past[w.key]
	if past == nil {
		past = new(gvl.RowCells)
	}
	v.shown[w.key] = past
	return r.Timeline.UpdateRows(past, v.ids, v.fromNS, v.toNS, cols)
}

// threadNow says what a thread does at the end of the time shown, and for which request or job (""), the fullest form first.
func threadNow(r *store.Reading, t *threadRow, request string) []string {
	switch {
	case !t.seen:
		return []string{"ended"}
	case !t.known:
		return []string{t.state.State.String()}
	}
	forms := gvl.DescribeFit(t.state, r.Dict)
	if request != "" {
		return servingForms(t.state.State, forms, request)
	}
	switch t.state.State {
	case gvl.Running, gvl.GC, gvl.Native, gvl.Stalled:
		if _, f := r.Dict.Stack(t.state.Stack); f != 0 {
			forms[0] += "  " + r.Dict.Frame(f).Label
			return forms[:1] // what has no room of it is cut
		}
	}
	return forms
}

// fit returns the first of the forms of a text, the fullest first, that has room, or as much of the last as has.
func fit(forms []string, w int) string {
	for _, s := range forms {
		if canvas.Width(s) <= w {
			return s
		}
	}
	return canvas.Cut(forms[len(forms)-1], w)
}

func (v *timelineView) loadLanes(r *store.Reading, cols int) {
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
func (v *timelineView) roots() map[sampler.ThreadID]string { return v.rootOf }

// expand opens or closes the selected group; closing a member closes its group.
func (v *timelineView) expand(open bool) { expand(&v.list, v.opened, open) }

func (w row) line() *row { return &w }

func (w *tableRow) line() *row { return &w.row }

// expand opens or closes the group with the cursor, of rows that are threads and groups.
func expand[R interface {
	keyed[rowKey]
	line() *row
}](l *list[R, rowKey], opened map[string]bool, open bool) {
	for i := l.index(); i >= 0; i-- {
		w := l.rows[i].line()
		if w.isGroup {
			opened[w.key.group] = open
			if !open {
				*l.cursor = w.key
			}
			return
		}
		if !w.inGroup {
			return
		}
	}
}

// chosen is the selected thread; nil when none is, or a group.
func (v *timelineView) chosen() *threadRow {
	if w := v.selectedRow(); w != nil && !w.isGroup {
		return &v.threads[w.members[0]]
	}
	return nil
}

// selectedRow is nil when no row is selected.
func (v *timelineView) selectedRow() *row {
	if i := v.index(); i >= 0 {
		return &v.rows[i]
	}
	return nil
}
