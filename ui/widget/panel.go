package widget

import (
	"cmp"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

const (
	// LeastPanel is the least height of the panel below the flamegraph, in rows. The panel's height changes only in
	// steps of panelStep rows. Otherwise the panel would move each time that a stack becomes one frame deeper.
	LeastPanel = 8
	panelStep  = 4
	// panelEachNS is the interval at which the panel's lists change, in ns. Numbers that change faster cannot be read.
	panelEachNS = int64(1e9)
	// maxPanelRows limits how many rows each list of the panel has.
	maxPanelRows = 100
)

// Panel fills the rows below the flamegraph. It lists the heaviest functions. A function's weight is the sum over all
// its places in the flamegraph. If a function is selected, the panel lists its callers, its callees and the threads
// that run it.
type Panel struct {
	Flame    *Flame
	timeline *Timeline // if the flamegraph is empty, the panel shows the stacks of the timeline's selected row
	now      *Now

	Rows int  // height of the panel with its rule; zero if it is not shown
	idle bool // true if the flamegraph is empty: the panel then shows where the threads are
	tree *flamegraph.Tree
	toNS int64
	of   panelOf
	// Total is the weight that is shown as 100 %. Usually this is the weight of the whole flamegraph, or of the
	// selected thread or group in it. If a function is selected, it is the weight of this function at all of its
	// places.
	Total int64

	// Hot are the functions, sorted by their own weight. Own are the program's own functions, sorted by a weight that
	// includes the libraries and C functions that they call. Both begin with the heaviest function. If a function is
	// selected, they have only the functions below it in the flamegraph.
	Hot, Own []PanelRow

	Self             int64
	places           int
	states           [gvl.NumStates]int64
	Callers, Callees []PanelRow
	Threads          []PanelRow
}

// panelOf says what the panel is about: the selected function, thread or group. The zero value means the whole
// flamegraph.
type panelOf struct{ flamegraph.FuncKey }

// PanelRow is a row of one of the panel's lists: a function and its weight in this list.
type PanelRow struct {
	flamegraph.FuncKey
	frame     sampler.FrameID
	from      sampler.Origin
	Weight    int64 // what the list is sorted by
	Total     int64
	States    [gvl.NumStates]int64 // Weight by state
	own       int64
	ownStates [gvl.NumStates]int64
	depth     int              // how often the function is on the path that the method sum is visiting
	best      *flamegraph.Node // the function's heaviest node
}

// FlameRows returns how many rows of the screen the flamegraph gets. The panel below it is not included.
func (p *Panel) FlameRows(sc *scene.Scene) int {
	return p.Room(sc) - p.Rows
}

// Room returns how many rows of the screen the flamegraph and the panel have together.
func (p *Panel) Room(sc *scene.Scene) int {
	if sc.Page != scene.PageFlame {
		return sc.Regions.FlameRows
	}
	n := sc.BodyRows() - 1
	if p.Flame.Comparing() {
		n--
	}
	return n
}

// Place computes the panel's height and updates its lists. It must be called after the flamegraph was built, and before
// the flamegraph is fitted into its rows. force is true if the selection or the picture has changed.
func (p *Panel) Place(sc *scene.Scene, force bool) {
	v := p.Flame
	p.Rows = 0
	if v.Tree == nil || v.unsure() {
		return
	}
	if p.idle = v.Tree.Root.Total <= 0; p.idle { // the flamegraph then needs only a line of text
		const line = 3
		if p.Rows = p.FlameRows(sc) - line; p.Rows < scene.LeastNow {
			p.Rows = 0
		}
		return
	}
	if free := p.FlameRows(sc) - v.RowsWanted(sc.LastNS); free >= LeastPanel {
		p.Rows = free / panelStep * panelStep
	}
	if p.Rows > 0 {
		p.Load(sc.Dict, force)
	}
}

// Load makes the lists again if they belong to an earlier picture. So the lists are always from the same picture as the
// figures of the selected frame.
func (p *Panel) Load(dict *sampler.Dictionary, force bool) {
	v := p.Flame
	var of panelOf
	var selected *flamegraph.Node
	if n, ok := v.Tree.Find(v.Selected); ok && len(v.Selected) > 0 {
		switch n = v.standsFor(n)[0]; n.Kind {
		case flamegraph.FrameNode, flamegraph.RootNode:
			of, selected = panelOf{n.FuncKey}, n
		}
	}
	function := selected != nil && of.Kind == flamegraph.FrameNode
	if of == p.of {
		since := v.Whole.ToNS - p.toNS
		if v.Whole == p.tree || !force && !function && since >= 0 && since < panelEachNS {
			return
		}
	}
	p.tree, p.toNS, p.of = v.Whole, v.Whole.ToNS, of
	p.Hot, p.Own, p.Callers, p.Callees, p.Threads = nil, nil, nil, nil, nil
	p.Self, p.Total, p.places, p.states = 0, 0, 0, [gvl.NumStates]int64{}
	w := panelWalk{p: p, dict: dict, root: v.Whole.Root, inverted: v.Inverted, funcs: make(map[flamegraph.FuncKey]*PanelRow),
		key: of.FuncKey, up: make(map[flamegraph.FuncKey]*PanelRow), down: make(map[flamegraph.FuncKey]*PanelRow),
		in: make(map[flamegraph.FuncKey]*PanelRow)}
	if function {
		w.around(v.Whole.Root, nil, 0, false)
		p.Callers, p.Callees, p.Threads = w.list(w.up), w.list(w.down), w.list(w.in)
		if v.Inverted {
			p.Callers, p.Callees = p.Callees, p.Callers
			return // in an inverted picture, the nodes below the function are not its callees but its callers
		}
		for _, n := range w.at {
			w.sum(n, nil)
		}
	} else {
		from := v.Whole.Root
		if selected != nil {
			from = selected
		}
		p.Total = from.Total
		for _, c := range from.Children {
			w.sum(c, nil)
		}
	}
	p.Hot = w.list(w.funcs)
	for _, r := range w.funcs {
		r.Weight, r.States = r.own, r.ownStates
	}
	p.Own = w.list(w.funcs)
}

// panelWalk visits a tree and adds up the weights of each function. If two files define a method with the same name,
// these are two functions.
type panelWalk struct {
	p        *Panel
	dict     *sampler.Dictionary
	root     *flamegraph.Node
	inverted bool
	funcs    map[flamegraph.FuncKey]*PanelRow
	// key is the selected function. It may be at several places in the tree. The field up has the functions that call
	// it at any of these places, and the field down has the functions that it calls. The field in has the threads or
	// groups to which the places belong.
	key          flamegraph.FuncKey
	up, down, in map[flamegraph.FuncKey]*PanelRow
	at           []*flamegraph.Node // places of the selected function
}

// row returns the row of a node's function in a list (the parameter in). It makes the row if the list has none.
func (w *panelWalk) row(in map[flamegraph.FuncKey]*PanelRow, n *flamegraph.Node) *PanelRow {
	r := in[n.FuncKey]
	if r == nil {
		r = &PanelRow{FuncKey: n.FuncKey, frame: n.Frame, from: sampler.OriginUnknown}
		if n.Frame != 0 {
			r.from = style.OriginOf(w.dict.Frame(n.Frame))
		}
		in[n.FuncKey] = r
	}
	if r.best == nil || n.Total > r.best.Total {
		r.best = n
	}
	return r
}

// add adds the weight of a node to a row.
func (r *PanelRow) add(weight int64, states *[gvl.NumStates]int64) {
	r.Weight += weight
	for i, ns := range states {
		r.States[i] += ns
	}
}

// sum adds up two weights for each function: its own weight, and the weight including everything that it calls. If a
// function is several times on a stack, the stack's weight is added only once. For the program's own functions, sum
// adds up a third weight. It also includes code that is not the program's own, if an own function calls this code. To
// compute it, sum adds the weight of each stack to the innermost own function of the stack.
func (w *panelWalk) sum(n *flamegraph.Node, owner *PanelRow) {
	var r *PanelRow
	if n.Kind != flamegraph.RootNode {
		r = w.row(w.funcs, n)
		if r.depth == 0 {
			r.Total += n.Total
		}
		r.depth++
		defer func() { r.depth-- }()
		self, states := n.Self, &n.StateSelf
		if w.inverted { // in an inverted picture only the nodes of the first row were executed; the others are callers
			self, states = 0, &n.StateTotal
			if n.Parent == w.root {
				self = n.Total
			}
		}
		if self > 0 {
			r.add(self, states)
		}
		own := r.from == sampler.OriginApp && n.Kind == flamegraph.FrameNode
		switch {
		case own && w.inverted && owner == nil:
			owner = r
			r.addOwn(n.Total, &n.StateTotal)
		case own && !w.inverted:
			owner = r
		}
		if owner != nil && !w.inverted {
			owner.addOwn(n.Self, &n.StateSelf)
		}
	}
	for _, c := range n.Children {
		w.sum(c, owner)
	}
}

func (r *PanelRow) addOwn(weight int64, states *[gvl.NumStates]int64) {
	r.own += weight
	for i, ns := range states {
		r.ownStates[i] += ns
	}
}

// around adds up the callers and callees of the selected function. It visits the node n and all nodes below it. The
// parameter root is the thread or group of n. The parameter inside says how many nodes above n are the selected
// function. The parameter next is true if the selected function calls n directly: all nodes from n up to the outermost
// call are this function. Then n is a callee. If the function calls itself, only the outermost call is used. So the
// weights of the callers add up to the function's total. The weights of the callees and the function's own time add up
// to this total, too.
func (w *panelWalk) around(n, root *flamegraph.Node, inside int, next bool) {
	p := w.p
	switch {
	case n.Kind == flamegraph.RootNode:
		if n != w.root {
			root = n
		}
	case n.FuncKey == w.key:
		if inside == 0 {
			next = true
			p.places++
			w.at = append(w.at, n)
			p.Total += n.Total
			for i, ns := range n.StateTotal {
				p.states[i] += ns
			}
			if w.inverted && n.Parent == w.root {
				w.row(w.up, n).add(n.Total, &n.StateTotal)
			} else {
				w.row(w.up, n.Parent).add(n.Total, &n.StateTotal)
			}
			if root != nil {
				w.row(w.in, root).add(n.Total, &n.StateTotal)
			}
		}
		switch {
		case !w.inverted:
			p.Self += n.Self
		case n.Parent == w.root:
			p.Self += n.Total
		}
		if next && n.Self > 0 { // in an inverted picture, the stack begins at this node
			w.row(w.down, n).add(n.Self, &n.StateSelf)
		}
		inside++
	case next:
		w.row(w.down, n).add(n.Total, &n.StateTotal)
		next = false
	}
	for _, c := range n.Children {
		w.around(c, root, inside, next)
	}
}

// list returns copies of the rows that have a weight, the heaviest first.
func (w *panelWalk) list(of map[flamegraph.FuncKey]*PanelRow) []PanelRow {
	out := make([]PanelRow, 0, len(of))
	for _, r := range of {
		if r.Weight > 0 {
			out = append(out, *r)
		}
	}
	sorting.By(out, func(x, y PanelRow) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(y.Total, x.Total), cmp.Compare(x.Label, y.Label),
			cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Kind, y.Kind))
	})
	return out[:min(len(out), maxPanelRows)]
}

// selectRow selects, in the flamegraph, the function that a row of the panel shows. If the function is at several
// places in the flamegraph, it selects the heaviest of them.
func (p *Panel) selectRow(h scene.Host, n *flamegraph.Node) tea.Cmd {
	v := p.Flame
	if zoom, ok := v.Tree.Find(v.Zoom); ok && len(v.Zoom) > 0 {
		in := n
		for in != nil && !slices.Contains(v.standsFor(zoom), in) {
			in = in.Parent
		}
		if in == nil { // the function is not in the part of the flamegraph that is shown
			v.Zoom, v.Top = nil, 0
		}
	}
	v.SelectNode(v.shown(n))
	h.Showing().Focus = scene.OnFlame
	h.Refresh()
	return nil
}
