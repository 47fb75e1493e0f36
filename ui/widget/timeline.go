package widget

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// Detail returns the full description of the selected thread. For a selected group it returns a summary of its threads.
func (v *Timeline) Detail(sc *scene.Scene) (name, rest string) {
	if w := v.SelectedRow(); w != nil {
		return sc.RowDetail(w)
	}
	return "", ""
}

// Timeline lists all threads with their states over time. It stores the selection and the opened groups by name and ID.
// So they do not change when other threads come and go.
type Timeline struct {
	*scene.Selection
	List[scene.Row, scene.RowKey]
	opened map[string]bool // groups that the user has opened (true) or closed (false)

	Threads scene.Threads // the threads of the scene
	Lanes   []lane
	Idents  idents
	// FromNS and ToNS are the times at the two ends of the time axis.
	FromNS, ToNS int64
	Cells        int // number of cells of the time axis
	rootOf       map[sampler.ThreadID]string
	Visible      []scene.Row
	Shares       shareColumns
	FrameCells   *frameCells        // nil if the rows show all states
	ids          []sampler.ThreadID // memory for cellsOf
	// The field past has the cells that the rows had in the last picture. The field shown has the cells of the new
	// picture while it is being loaded.
	past, shown map[scene.RowKey]*timeline.RowCells
}

func newTimelineView(s *scene.Selection) Timeline {
	return Timeline{Selection: s, List: List[scene.Row, scene.RowKey]{Cursor: &s.Selected}, opened: make(map[string]bool)}
}

// lane is one ractor's GVL over time.
type lane struct {
	label  string
	ractor sampler.RactorID
	cells  []timeline.OwnerCell
	owner  []int // for each cell, the number (see idents) of the thread that held the GVL
	Own    bool  // true if the cells and the threads' totals have different time spans
}

// BuildRows makes the list of rows. It opens groups one after the other. It opens a group only if the list then has at
// most budget rows. If the user has opened or closed a group, the group stays as it is.
func (v *Timeline) BuildRows(threads scene.Threads, budget int) {
	v.Threads = threads
	names := make([]string, len(v.Threads))
	for i := range v.Threads {
		names[i] = v.Threads[i].Name
	}
	groups := scene.GroupThreads(names)
	v.rootOf = make(map[sampler.ThreadID]string, len(v.Threads))
	for _, g := range groups {
		for _, i := range g.Members {
			if v.rootOf[v.Threads[i].ID] = v.Threads[i].Name; g.Name != "" {
				v.rootOf[v.Threads[i].ID] = fmt.Sprintf("%s ×%d", g.Name, len(g.Members))
			}
		}
	}
	groups = threads.ListedOf(groups)
	tier := func(g *scene.Group) int {
		if v.Threads.AnyActive(g.Members, v.ToNS-v.FromNS) {
			return 0
		}
		return 1
	}
	sorting.StableBy(groups, func(x, y scene.Group) int { return cmp.Compare(tier(&x), tier(&y)) })
	v.Rows = v.Rows[:0]
	open := v.openGroups(groups, budget)
	for _, g := range groups {
		if len(v.Rows) >= scene.MaxRows {
			break
		}
		if g.Name == "" {
			v.Rows = append(v.Rows, v.Threads.Row(g.Members[0], false))
			continue
		}
		head := v.Threads.GroupRow(g)
		head.Open = open[g.Name]
		v.Rows = append(v.Rows, head)
		if head.Open {
			for _, i := range g.Members {
				v.Rows = append(v.Rows, v.Threads.Row(i, true))
			}
		}
	}
}

// openGroups decides which groups are open.
func (v *Timeline) openGroups(groups []scene.Group, budget int) map[string]bool {
	open := make(map[string]bool)
	rows := len(groups)
	for _, g := range groups {
		if g.Name != "" && v.opened[g.Name] {
			open[g.Name] = true
			rows += len(g.Members)
		}
	}
	for _, g := range groups {
		_, chosen := v.opened[g.Name]
		if g.Name != "" && !chosen && rows+len(g.Members) <= budget && !v.Threads.MostlyGone(g.Members) {
			open[g.Name] = true
			rows += len(g.Members)
		}
	}
	return open
}

// Longest returns how many columns the longest name in the timeline needs, with its indentation.
func (v *Timeline) Longest() int {
	n := 0
	for i := range v.Rows {
		indent := 3
		if v.Rows[i].InGroup {
			indent = 5
		}
		n = max(n, indent+canvas.Width(v.Rows[i].Name))
	}
	return n
}

// LoadCells reads the cells of the visible rows, and the GVL lanes: the rows that show which thread held the GVL.
func (v *Timeline) LoadCells(sc *scene.Scene, r *store.Reading, cols, rows int) {
	v.Cells = cols
	v.selectGroup()
	v.Visible = v.Scroll(rows)
	v.loadLanes(r, cols)
	if v.shown == nil {
		v.shown, v.past = make(map[scene.RowKey]*timeline.RowCells), make(map[scene.RowKey]*timeline.RowCells)
	}
	clear(v.shown)
	defer func() { v.past, v.shown = v.shown, v.past }()
	for i := range v.Visible {
		w := &v.Visible[i]
		w.Cells = v.cellsOf(r, w, cols)
		if w.IsGroup {
			w.Now = []string{v.Threads.States(w.Members).String()}
			continue
		}
		t := &v.Threads[w.Members[0]]
		w.Ident = v.Idents.Numbers[t.ID]
		w.Holds = t.Known && t.State.State.Held()
		w.Now = threadNow(r, t, sc.RequestOf(t.ID))
	}
}

// selectGroup corrects a selection that has no row. If the selected thread has no row because its group was closed,
// selectGroup selects the group instead.
func (v *Timeline) selectGroup() {
	if v.Index() >= 0 {
		return
	}
	for i := range v.Rows {
		for _, m := range v.Rows[i].Members {
			if v.Rows[i].IsGroup && v.Threads[m].ID == v.Selected.Thread {
				v.Selected = v.Rows[i].Key
				return
			}
		}
	}
}

func (v *Timeline) cellsOf(r *store.Reading, w *scene.Row, cols int) []timeline.Cell {
	v.ids = v.ids[:0]
	for _, m := range w.Members {
		v.ids = append(v.ids, v.Threads[m].ID)
	}
	past := v.past[w.Key]
	if past == nil {
		past = new(timeline.RowCells)
	}
	v.shown[w.Key] = past
	return r.Timeline.UpdateRows(past, v.ids, v.FromNS, v.ToNS, cols)
}

// threadNow returns texts that say what a thread does at the end of the time on the screen. The longest text comes
// first. request is the request or job for which the thread works, or "".
func threadNow(r *store.Reading, t *scene.Thread, request string) []string {
	switch {
	case !t.Seen:
		return []string{"ended"}
	case !t.Known:
		return []string{t.State.State.String()}
	}
	forms := t.Forms(r.Dict)
	if request != "" {
		return scene.ServingForms(t.State.State, forms, request)
	}
	switch t.State.State {
	case gvl.Running, gvl.GC, gvl.Native, gvl.Stalled:
		if _, f := r.Dict.Stack(t.State.Stack); f != 0 {
			forms[0] += "  " + r.Dict.Frame(f).Label
			return forms[:1] // the drawing code cuts this text if there is no room for it
		}
	}
	return forms
}

func (v *Timeline) loadLanes(r *store.Reading, cols int) {
	v.Lanes = v.Lanes[:0]
	ractors := r.Timeline.Ractors()
	for _, id := range ractors[:min(len(ractors), scene.MaxLanes)] {
		l := lane{label: "GVL held by", ractor: id, cells: r.Timeline.Owners(id, v.FromNS, v.ToNS, cols)}
		if len(ractors) > 1 {
			l.label = fmt.Sprintf("GVL of ractor %d", id)
		}
		v.Lanes = append(v.Lanes, l)
	}
	v.Idents.assign(v.Lanes, v.Threads)
	for i := range v.Lanes {
		l := &v.Lanes[i]
		for _, c := range l.cells {
			l.owner = append(l.owner, v.Idents.Numbers[c.Owner])
		}
	}
}

// Roots returns for each thread the name of its group. A thread without a group has its own name. The flamegraph has
// one box at its root for each of these names.
func (v *Timeline) Roots() map[sampler.ThreadID]string { return v.rootOf }

// Expand opens or closes the selected group. If a thread of a group is selected, it opens or closes the thread's group.
func (v *Timeline) Expand(open bool) { Expand(&v.List, v.opened, open) }

// Expand opens or closes the group of the row that has the cursor. It remembers in the map opened what the user has
// chosen.
func Expand[R interface {
	keyed[scene.RowKey]
	Line() *scene.Row
}](l *List[R, scene.RowKey], opened map[string]bool, open bool) {
	for i := l.Index(); i >= 0; i-- {
		w := l.Rows[i].Line()
		if w.IsGroup {
			opened[w.Key.Group] = open
			if !open {
				*l.Cursor = w.Key
			}
			return
		}
		if !w.InGroup {
			return
		}
	}
}

// Chosen returns the selected thread. It is nil if a group or nothing is selected.
func (v *Timeline) Chosen() *scene.Thread {
	if w := v.SelectedRow(); w != nil && !w.IsGroup {
		return &v.Threads[w.Members[0]]
	}
	return nil
}

// SelectedRow returns the selected row. It is nil if no row is selected.
func (v *Timeline) SelectedRow() *scene.Row {
	if i := v.Index(); i >= 0 {
		return &v.Rows[i]
	}
	return nil
}

// OpenGroupOf opens the group to which a thread belongs.
func (v *Timeline) OpenGroupOf(id sampler.ThreadID) {
	for i := range v.Rows {
		for _, m := range v.Rows[i].Members {
			if w := &v.Rows[i]; w.IsGroup && v.Threads[m].ID == id {
				v.opened[w.Key.Group] = true
			}
		}
	}
}

// identGlyphs are the signs for threads in the GVL lane (the row that shows who held the GVL). They distinguish threads
// in addition to the colours.
const identGlyphs = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// idents gives each thread that holds the GVL a sign for the GVL lane. The thread keeps the sign while it is in the
// picture. If the sign is a digit, it is the number at the end of the thread's name. If it is a letter, it is the first
// letter of the name. If another thread already has this sign, the thread gets "+". It does not get another digit,
// because this would look like the number in its name.
type idents struct {
	Numbers map[sampler.ThreadID]int // index in identGlyphs plus 1; threads without a glyph are absent
	used    [len(identGlyphs) + 1]sampler.ThreadID
}

// digitGlyphs is how many of identGlyphs are digits.
const digitGlyphs = 9

// digitOf returns the number at the end of a name if it is from 1 to 9. Otherwise it returns zero.
func digitOf(name string) int {
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	if n, err := strconv.Atoi(digits); err == nil && n <= digitGlyphs {
		return n
	}
	return 0
}

// assign gives signs to the threads that held the GVL. The threads that held it longest choose first. Threads that have
// left the picture lose their signs.
func (d *idents) assign(lanes []lane, threads scene.Threads) {
	held := make(map[sampler.ThreadID]int64)
	for _, l := range lanes {
		for _, c := range l.cells {
			if c.Owner != 0 {
				held[c.Owner] += c.HeldByOwnerNS
			}
		}
	}
	if d.Numbers == nil {
		d.Numbers = make(map[sampler.ThreadID]int)
	}
	for id, n := range d.Numbers {
		if _, ok := held[id]; !ok {
			delete(d.Numbers, id)
			d.used[n] = 0
		}
	}
	fresh := make([]sampler.ThreadID, 0, len(held))
	for id := range held {
		if d.Numbers[id] == 0 {
			fresh = append(fresh, id)
		}
	}
	slices.SortFunc(fresh, func(x, y sampler.ThreadID) int {
		return cmp.Or(cmp.Compare(held[y], held[x]), cmp.Compare(x, y))
	})
	names := make(map[sampler.ThreadID]string, len(threads))
	for i := range threads {
		names[threads[i].ID] = threads[i].Name
	}
	for _, id := range fresh {
		for _, n := range glyphsOf(names[id]) {
			if d.used[n] == 0 {
				d.Numbers[id], d.used[n] = n, id
				break
			}
		}
	}
}

// glyphsOf returns which signs fit the name of a thread, the best first. A sign is given by its number.
func glyphsOf(name string) []int {
	if n := digitOf(name); n > 0 {
		return []int{n}
	}
	if name == "" || name[len(name)-1] >= '0' && name[len(name)-1] <= '9' {
		return nil // no sign fits, because the number is not from 1 to 9
	}
	var out []int
	for _, letter := range []string{strings.ToLower(name[:1]), strings.ToUpper(name[:1])} {
		if i := strings.Index(identGlyphs, letter); i >= digitGlyphs {
			out = append(out, i+1)
		}
	}
	return out
}

// identRune returns the sign with the number n. It returns '+' if there is no such sign.
func identRune(n int) rune {
	if n <= 0 || n > len(identGlyphs) {
		return '+'
	}
	return rune(identGlyphs[n-1])
}

// Parts holds the parts of the screen that several views share, such as the timeline. A page uses the parts that it
// shows.
type Parts struct {
	Chosen   *scene.Selection
	Timeline Timeline
	Flame    Flame
	Panel    Panel
	Now      Now
}

func NewParts(s *scene.Selection) *Parts {
	c := &Parts{Chosen: s, Timeline: newTimelineView(s)}
	c.Now.flame = &c.Flame
	c.Panel.Flame, c.Panel.timeline, c.Panel.now = &c.Flame, &c.Timeline, &c.Now
	return c
}

// HighlightsFrame reports whether the timeline highlights when the selected frame ran. It does so in the live view,
// while the flamegraph receives the arrow keys. A row that stands for several folded frames is not a single frame, so
// it is never highlighted.
func (c *Parts) HighlightsFrame(sc *scene.Scene) bool {
	n := c.Flame.SelNode
	return sc.Page == scene.PageLive && sc.Focus == scene.OnFlame && n != nil && n.Parent != nil && n.Kind != flamegraph.CutNode
}

// OpenSelected opens the page of the selected thread. If a group is selected, it opens or closes the group.
func (v *Timeline) OpenSelected(h scene.Host) tea.Cmd {
	switch i := v.Index(); {
	case i < 0:
		v.Move(Step{Rows: +1})
	case v.Rows[i].IsGroup:
		v.Expand(!v.Rows[i].Open)
	default:
		return h.Open(scene.PageThread)
	}
	h.Refresh()
	return nil
}
