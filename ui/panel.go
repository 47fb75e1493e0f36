package ui

import (
	"cmp"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

const (
	// leastPanel is the height from which on the panel under the flamegraph says something; it grows by panelStep, so that a
	// call one deeper does not move it.
	leastPanel = 8
	panelStep  = 4
	// panelEachNS is how old its list of functions may be: numbers that change faster can't be read.
	panelEachNS = int64(1e9)
	// maxPanelRows bounds the rows of each of its lists.
	maxPanelRows = 100
)

// panelView fills the rows that the flamegraph leaves free with what its picture says of functions, wherever they are in it: the
// heaviest ones; or who calls the selected one, what it calls and where it runs.
type panelView struct {
	flame    *flameView
	timeline *timelineView // whose selected row says whose stacks are shown where the flamegraph is empty
	now      *nowView

	rows int  // its height, the rule above it included; 0: it is not shown
	idle bool // the flamegraph is empty: the panel says where the threads are instead
	tree *flamegraph.Tree
	toNS int64
	of   panelOf
	// total is the weight that all shares are of: that of the picture, of the selected thread or group in it, or of the selected
	// function in all of its places.
	total int64

	// hot are the functions by their own weight, own those of the program's own by their weight with what they call outside of it,
	// heaviest first; of a selected function, those under it.
	hot, own []panelRow

	self             int64
	places           int
	states           [gvl.NumStates]int64
	callers, callees []panelRow
	threads          []panelRow
}

// panelOf says what the panel is about: the function, or the thread or group, of the selected row; the zero value: all.
type panelOf struct{ flamegraph.FuncKey }

// panelRow is a function with a weight of its own in each of the lists.
type panelRow struct {
	flamegraph.FuncKey
	frame     sampler.FrameID
	from      style.Provenance
	weight    int64 // what the list is sorted by
	total     int64
	states    [gvl.NumStates]int64 // of weight
	own       int64
	ownStates [gvl.NumStates]int64
	depth     int              // how many of the calls being looked at are its
	best      *flamegraph.Node // its heaviest place
}

// flameRows is the height of the flamegraph on the screen, without the panel under it.
func (p *panelView) flameRows(sc *scene) int {
	return p.room(sc) - p.rows
}

// room is the height of both.
func (p *panelView) room(sc *scene) int {
	if sc.page != pageFlame {
		return sc.regions.flameRows
	}
	n := sc.bodyRows() - 1
	if p.flame.comparing() {
		n--
	}
	return n
}

// place decides on the panel's height and brings it up to date. It is called when the flamegraph is built, before it is
// fitted into its rows. force: something else is selected, or shown.
func (p *panelView) place(sc *scene, force bool) {
	v := p.flame
	p.rows = 0
	if v.tree == nil || v.unsure() {
		return
	}
	if p.idle = v.tree.Root.Total <= 0; p.idle { // a line says so
		const line = 3
		if p.rows = p.flameRows(sc) - line; p.rows < leastNow {
			p.rows = 0
		}
		return
	}
	if free := p.flameRows(sc) - v.wanted(sc.lastNS); free >= leastPanel {
		p.rows = free / panelStep * panelStep
	}
	if p.rows > 0 {
		p.load(sc.dict, force)
	}
}

// load makes the lists again where they are of another picture. What is beside the selected frame's own figures is
// always of the same picture as those.
func (p *panelView) load(dict *sampler.Dictionary, force bool) {
	v := p.flame
	var of panelOf
	var selected *flamegraph.Node
	if n, ok := v.tree.Find(v.selected); ok && len(v.selected) > 0 {
		switch n = v.standsFor(n)[0]; n.Kind {
		case flamegraph.FrameNode, flamegraph.RootNode:
			of, selected = panelOf{n.FuncKey}, n
		}
	}
	function := selected != nil && of.Kind == flamegraph.FrameNode
	if of == p.of {
		since := v.whole.ToNS - p.toNS
		if v.whole == p.tree || !force && !function && since >= 0 && since < panelEachNS {
			return
		}
	}
	p.tree, p.toNS, p.of = v.whole, v.whole.ToNS, of
	p.hot, p.own, p.callers, p.callees, p.threads = nil, nil, nil, nil, nil
	p.self, p.total, p.places, p.states = 0, 0, 0, [gvl.NumStates]int64{}
	w := panelWalk{p: p, dict: dict, root: v.whole.Root, inverted: v.inverted, funcs: make(map[flamegraph.FuncKey]*panelRow),
		key: of.FuncKey, up: make(map[flamegraph.FuncKey]*panelRow), down: make(map[flamegraph.FuncKey]*panelRow),
		in: make(map[flamegraph.FuncKey]*panelRow)}
	if function {
		w.around(v.whole.Root, nil, 0, false)
		p.callers, p.callees, p.threads = w.list(w.up), w.list(w.down), w.list(w.in)
		if v.inverted {
			p.callers, p.callees = p.callees, p.callers
			return // what is under it in this picture called it
		}
		for _, n := range w.at {
			w.sum(n, nil)
		}
	} else {
		from := v.whole.Root
		if selected != nil {
			from = selected
		}
		p.total = from.Total
		for _, c := range from.Children {
			w.sum(c, nil)
		}
	}
	p.hot = w.list(w.funcs)
	for _, r := range w.funcs {
		r.weight, r.states = r.own, r.ownStates
	}
	p.own = w.list(w.funcs)
}

// panelWalk goes over a tree once. Functions are distinguished as its nodes are: a method defined in two files is two.
type panelWalk struct {
	p        *panelView
	dict     *sampler.Dictionary
	root     *flamegraph.Node
	inverted bool
	funcs    map[flamegraph.FuncKey]*panelRow
	// key is the selected function; up are the nodes above its places, down those under them, in the roots that they are in.
	key          flamegraph.FuncKey
	up, down, in map[flamegraph.FuncKey]*panelRow
	at           []*flamegraph.Node // its places
}

// row returns the row of a node's function in one of the lists.
func (w *panelWalk) row(in map[flamegraph.FuncKey]*panelRow, n *flamegraph.Node) *panelRow {
	r := in[n.FuncKey]
	if r == nil {
		r = &panelRow{FuncKey: n.FuncKey, frame: n.Frame, from: style.FromThread}
		if n.Frame != 0 {
			r.from = style.ProvenanceOf(w.dict.Frame(n.Frame))
		}
		in[n.FuncKey] = r
	}
	if r.best == nil || n.Total > r.best.Total {
		r.best = n
	}
	return r
}

// add adds a node's weight to a row.
func (r *panelRow) add(weight int64, states *[gvl.NumStates]int64) {
	r.weight += weight
	for i, ns := range states {
		r.states[i] += ns
	}
}

// sum adds up each function's own weight, its weight with all that it calls (once a stack, however often it is on it), and, for
// functions of the program's own, its weight with what it calls outside of the program: each stack's goes to the innermost one.
func (w *panelWalk) sum(n *flamegraph.Node, owner *panelRow) {
	var r *panelRow
	if n.Kind != flamegraph.RootNode {
		r = w.row(w.funcs, n)
		if r.depth == 0 {
			r.total += n.Total
		}
		r.depth++
		defer func() { r.depth-- }()
		self, states := n.Self, &n.StateSelf
		if w.inverted { // the first row is what was executed, and what is under it who called it
			self, states = 0, &n.StateTotal
			if n.Parent == w.root {
				self = n.Total
			}
		}
		if self > 0 {
			r.add(self, states)
		}
		own := r.from == style.FromApp && n.Kind == flamegraph.FrameNode
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

func (r *panelRow) addOwn(weight int64, states *[gvl.NumStates]int64) {
	r.own += weight
	for i, ns := range states {
		r.ownStates[i] += ns
	}
}

// around adds up what is around the selected function: root is the thread or group that n is in, inside how many of the nodes
// above n are the function, next says that the one above is, and that only calls of itself are between it and the first of
// them. A call of itself is not another function's: callers, or the callees with its own time, sum to its total.
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
			p.total += n.Total
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
			p.self += n.Self
		case n.Parent == w.root:
			p.self += n.Total
		}
		if next && n.Self > 0 { // of a picture of callees: nothing called it
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

// list returns copies of the rows that weigh something, heaviest first.
func (w *panelWalk) list(of map[flamegraph.FuncKey]*panelRow) []panelRow {
	out := make([]panelRow, 0, len(of))
	for _, r := range of {
		if r.weight > 0 {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(x, y panelRow) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(y.total, x.total), cmp.Compare(x.Label, y.Label),
			cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Kind, y.Kind))
	})
	return out[:min(len(out), maxPanelRows)]
}

// selectRow selects the heaviest place of a row's function in the flamegraph.
func (p *panelView) selectRow(h Host, n *flamegraph.Node) tea.Cmd {
	v := p.flame
	if zoom, ok := v.tree.Find(v.zoom); ok && len(v.zoom) > 0 {
		in := n
		for in != nil && !slices.Contains(v.standsFor(zoom), in) {
			in = in.Parent
		}
		if in == nil { // it is not in the part that is shown
			v.zoom, v.top = nil, 0
		}
	}
	v.selectNode(v.shown(n))
	h.Scene().focus = onFlame
	h.Refresh()
	return nil
}
