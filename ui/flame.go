package ui

import (
	"regexp"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// flameLook is what a person chose of how flamegraphs look: of every process the same.
type flameLook struct {
	metric   flamegraph.Metric
	showIdle bool
	folding  folding
	colour   colouring
	inverted bool // callees first
	upward   bool // the first row is at the bottom: flames, not icicles
	search   *regexp.Regexp
	// sought is the search that a view made to show one function in the flamegraph: it leaves no rows out of lists.
	sought *regexp.Regexp
}

// listed is what rows of lists have to match; nil: all are listed.
func (l *flameLook) listed() *regexp.Regexp {
	if l.search == l.sought {
		return nil
	}
	return l.search
}

// colouring says what the colour of a frame is.
type colouring uint8

const (
	// colourByItself is by state where that tells something: of wall time. Other weights are one state's, or nearly.
	colourByItself colouring = iota
	colourByState
	colourByOrigin
)

// byState reports whether the colour of a frame is the state that its time was mostly in.
func (l *flameLook) byState() bool {
	return l.colour == colourByState || l.colour == colourByItself && l.metric == flamegraph.Wall
}

// nextColouring goes from states to origins and back.
func (l *flameLook) nextColouring() {
	if l.byState() {
		l.colour = colourByOrigin
	} else {
		l.colour = colourByState
	}
}

// flameView shows where the time goes. What is selected and zoomed into is kept as a path of functions, since the tree
// is made again for every picture.
type flameView struct {
	flameLook
	zoom     flamegraph.Path
	selected flamegraph.Path
	// hidden are the labels of functions left out, focused the one that all stacks shown hold.
	hidden  map[string]bool
	focused string
	// base are the weights compared with, those of the time baseWhen; diff the change of each node's share of the whole,
	// changes the functions whose own time changed, most first. base is nil when nothing is compared.
	base     *flamegraph.Snapshot
	baseWhen string
	baseKind baseKind
	against  *Against // another recording; nil: there is none
	diff     map[*flamegraph.Node]float64
	diffSelf map[*flamegraph.Node]float64 // of its own time
	changes  []change
	top      int // first row of the picture that is drawn
	height   int // as many rows were drawn the last time

	builder *flamegraph.Builder
	// whole is the tree of all frames, tree the one shown: whole, or that of own.
	whole, tree *flamegraph.Tree
	own         *flamegraph.Folded // nil: libraries are not folded
	fold        *folded
	gaps        map[*flamegraph.Node]string // rows of left-out frames, by the outermost of them
	picture     flamegraph.Picture
	matches     flamegraph.Matches
	inRun       map[*flamegraph.Node]*flamegraph.Node // of runs that the search matches, the heaviest frame that it matches there
	selNode     *flamegraph.Node
	origins     map[sampler.FrameID]style.Provenance
	endpoint    flamegraph.EndpointID // of which it shows the time; 0: of all
	filter      string                // what is shown, when not all threads are
	// everything is what is shown otherwise; "": all threads.
	everything string

	// depth is the depth that the screen makes room for, last seen needed at depthNS.
	depth   int
	depthNS int64
}

// restStates are those of weights that are rest: the weights of the screen are of gvl.Resting's states.
const restStates = flamegraph.StateSet(1) << gvl.Parked

// maxPictureRows bounds the depth of the picture: a stack of Rails has some 150 frames.
const maxPictureRows = 2000

// build makes the tree of some weights and its picture, for an area of so many rows.
func (v *flameView) build(weights *flamegraph.Snapshot, dict *sampler.Dictionary, threads map[sampler.ThreadID]bool, root func(sampler.ThreadID) string,
	width, rows int) {
	if v.builder == nil {
		v.builder = flamegraph.NewBuilder(dict)
		v.origins = make(map[sampler.FrameID]style.Provenance)
	}
	o := flamegraph.Options{Metric: v.metric, Threads: threads, Root: root}
	if !v.showIdle && v.metric == flamegraph.Wall {
		o.States = flamegraph.AllStates &^ restStates
	}
	o = v.options(o)
	v.whole = v.builder.Build(weights, o)
	v.tree, v.own = v.whole, nil
	v.loadDiff(o, weights, dict)
	if v.folding == foldLibraries {
		v.foldLibraries()
	}
	v.lay(dict, width)
	if v.folding == foldByItself && v.hidesOwn(rows) {
		v.setFolding(foldLibraries)
		v.lay(dict, width)
	}
}

// lay makes the picture of the tree.
func (v *flameView) lay(dict *sampler.Dictionary, width int) {
	zoom, _ := v.tree.Find(v.zoom)
	v.findMatches(zoom)
	if v.fold = noFold(v.tree); v.folding != foldLibraries && v.folding != foldNothing {
		v.fold = foldTree(v.tree, zoom, func(n *flamegraph.Node) bool { return v.matches.Nodes[n] })
	}
	v.picture = flamegraph.Layout(v.fold.tree, v.fold.show(zoom), width, maxPictureRows)
	if len(v.zoom) == 0 && len(v.picture.Rows) > 0 { // the root's row says nothing that the rule does not
		v.picture.Rows = v.picture.Rows[1:]
	}
	v.selNode = nil
	if len(v.selected) > 0 {
		n, ok := v.tree.Find(v.selected)
		if !ok && n.Kind == flamegraph.RunNode { // it was in it while it was open
			v.selected, ok = flamegraph.PathOf(n), true
		}
		if ok {
			v.selNode = v.fold.originalOf(v.fold.show(n))
		}
	}
	v.gaps = make(map[*flamegraph.Node]string)
	clear(v.origins) // of this picture's frames alone: a program that redefines its methods has new ones all the time
	for _, row := range v.picture.Rows {
		for i := range row {
			n := row[i].Node
			if n == nil {
				continue
			}
			whole := v.fold.originalOf(n)
			if n.Kind != whole.Kind {
				v.gaps[whole] = n.Label
			}
			n = whole
			row[i].Node = n
			if n.Frame != 0 {
				if _, ok := v.origins[n.Frame]; !ok {
					v.origins[n.Frame] = style.ProvenanceOf(dict.Frame(n.Frame))
				}
			}
		}
	}
}

// holdDepthNS is for how long the screen keeps room for a depth that is not needed any more: it must not jump with
// every deep call.
const holdDepthNS = int64(10e9)

// wanted is the number of rows to make room for; 0: not known yet.
func (v *flameView) wanted(nowNS int64) int {
	n := len(v.picture.Rows)
	if n >= v.depth || nowNS-v.depthNS > holdDepthNS || nowNS < v.depthNS {
		v.depth, v.depthNS = n, nowNS
	}
	return v.depth
}

// fit scrolls so that the selected frame is among the rows drawn.
func (v *flameView) fit(height int) {
	v.height = height
	if y, _, ok := v.find(v.selNode); ok {
		v.top = min(v.top, y)
		v.top = max(v.top, y-height+1)
	}
	v.top = max(0, min(v.top, len(v.picture.Rows)-height))
}

// find returns the place of a node in the picture.
func (v *flameView) find(n *flamegraph.Node) (y, i int, ok bool) {
	if n == nil {
		return 0, 0, false
	}
	for y, row := range v.picture.Rows {
		for i := range row {
			if row[i].Node == n {
				return y, i, true
			}
		}
	}
	return 0, 0, false
}

func (v *flameView) selectNode(n *flamegraph.Node) {
	if n != nil && n.Parent != nil {
		v.selected = flamegraph.PathOf(n)
	}
}

// first selects the heaviest frame of the first row when nothing (or what is gone) is selected; it reports whether it did.
func (v *flameView) first() bool {
	if _, _, ok := v.find(v.selNode); ok {
		return false
	}
	if v.tree == nil {
		return true
	}
	zoom, _ := v.tree.Find(v.zoom)
	if len(v.zoom) > 0 {
		v.selectNode(zoom)
	} else {
		v.selectNode(heaviest(zoom))
	}
	return true
}

func heaviest(n *flamegraph.Node) *flamegraph.Node {
	var best *flamegraph.Node
	for _, c := range n.Children {
		if best == nil || c.Total > best.Total {
			best = c
		}
	}
	return best
}

// callerOf and calleeOf go by the rows of the picture, where a run of frames may be one row; nil at the ends.
func (v *flameView) callerOf(n *flamegraph.Node) *flamegraph.Node {
	return v.fold.originalOf(v.fold.show(n).Parent)
}

func (v *flameView) calleeOf(n *flamegraph.Node) *flamegraph.Node {
	return v.fold.originalOf(heaviest(v.fold.show(n)))
}

func (v *flameView) selectParent() {
	if !v.first() {
		v.selectNode(v.callerOf(v.selNode))
	}
}

func (v *flameView) selectChild() {
	if !v.first() {
		v.selectNode(v.calleeOf(v.selNode))
	}
}

// selectBeside selects the next frame of the row.
func (v *flameView) selectBeside(d int) {
	if v.first() {
		return
	}
	y, i, _ := v.find(v.selNode)
	row := v.picture.Rows[y]
	for i += d; i >= 0 && i < len(row); i += d {
		if row[i].Node != nil {
			v.selectNode(row[i].Node)
			return
		}
	}
}

// up and down move the selection by a row of the screen: outward at the top, in a picture of flames at the bottom.
func (v *flameView) up() {
	if v.upward {
		v.selectChild()
	} else {
		v.selectParent()
	}
}

func (v *flameView) down() {
	if v.upward {
		v.selectParent()
	} else {
		v.selectChild()
	}
}

// rowAt is the row of the picture that is drawn at a row of the screen, in an area of the height; -1: none. It is its own
// inverse.
func (v *flameView) rowAt(y, height int) int {
	if v.upward {
		y = height - 1 - y
	}
	if y += v.top; y < 0 || y >= len(v.picture.Rows) {
		return -1
	}
	return y
}

// scrollBy scrolls by rows of the screen, whichever way the picture grows.
func (v *flameView) scrollBy(d int) {
	if v.upward {
		d = -d
	}
	v.top += d
	v.selected = nil
}

func (v *flameView) toRoot() {
	v.selected, v.selNode, v.top = nil, nil, 0
	v.first()
}

// pageBy scrolls by a screenful of the screen.
func (v *flameView) pageBy(d int) {
	if v.upward {
		d = -d
	}
	v.scroll(d)
}

// scroll moves the picture by a screenful, and the selection with it: outward (-1) or inward (+1).
func (v *flameView) scroll(d int) {
	if v.first() {
		return
	}
	for range max(v.height-1, 1) {
		n := v.callerOf(v.selNode)
		if d > 0 {
			n = v.calleeOf(v.selNode)
		}
		if n == nil || n.Parent == nil {
			return
		}
		v.selNode = n
		v.selectNode(n)
	}
}

func (v *flameView) zoomIn() {
	if v.first() {
		return
	}
	v.zoom = v.selected
	v.top = 0
	if hit := v.inRun[v.selNode]; hit != nil {
		v.selected = v.own.PathIn(v.selNode, hit)
	}
}

// zoomOut leaves the zoom; false when there was none.
func (v *flameView) zoomOut() bool {
	if len(v.zoom) == 0 {
		return false
	}
	v.selected = v.zoom
	v.zoom = nil
	return true
}

// nextMatch selects the next (or previous) frame that the search found, in reading order.
func (v *flameView) nextMatch(d int) {
	var hits []*flamegraph.Node
	at := -1
	for _, row := range v.picture.Rows {
		for i := range row {
			n := row[i].Node
			if n == nil || !v.matches.Nodes[n] {
				continue
			}
			if n == v.selNode {
				at = len(hits)
			}
			hits = append(hits, n)
		}
	}
	if len(hits) == 0 {
		return
	}
	if at < 0 && d < 0 {
		at = 0
	}
	v.selectNode(hits[(at+d+len(hits))%len(hits)])
}

func (v *flameView) nextMetric() {
	i := slices.Index(style.Metrics, v.metric)
	v.metric = style.Metrics[(i+1)%len(style.Metrics)]
}
