package widget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Folding says which frames of a flamegraph are folded into rows.
type Folding uint8

const (
	// FoldByItself is foldRuns until that has less than half of the program's own code on the screen: foldLibraries
	// from then on.
	FoldByItself Folding = iota
	// FoldLibraries folds what is not the program's own (flamegraph.Fold).
	FoldLibraries
	// FoldRuns folds long runs of frames without a branch (foldTree).
	FoldRuns
	// FoldNothing shows all frames.
	FoldNothing
)

// NextFolding goes on from own code to folded runs, to everything, and back.
func (v *Flame) NextFolding() {
	switch v.Folding {
	case FoldNothing:
		v.setFolding(FoldLibraries)
	case FoldLibraries:
		v.setFolding(FoldRuns)
	default:
		v.setFolding(FoldNothing)
	}
}

// ToggleLibraries goes from own code to everything and back.
func (v *Flame) ToggleLibraries() {
	if v.Folding == FoldLibraries {
		v.setFolding(FoldNothing)
	} else {
		v.setFolding(FoldLibraries)
	}
}

// setFolding folds in another way. What is selected and zoomed into stays so, where the picture has it.
func (v *Flame) setFolding(to Folding) {
	if v.Folding = to; v.Tree == nil {
		return
	}
	v.keep(v.wholeNode(v.Selected), v.wholeNode(v.Zoom))
}

// wholeNode is the node of the whole tree that a path leads to, the heaviest one where it stands for several; nil:
// there is none.
func (v *flamePicture) wholeNode(p flamegraph.Path) *flamegraph.Node {
	n, ok := v.Tree.Find(p)
	if !ok || len(p) == 0 {
		return nil
	}
	return slices.MaxFunc(v.standsFor(n), func(x, y *flamegraph.Node) int { return cmp.Compare(x.Total, y.Total) })
}

// keep makes nodes of the whole tree the selected and zoomed ones of the picture as it is folded now.
func (v *Flame) keep(selected, zoom *flamegraph.Node) {
	v.Tree, v.own = v.Whole, nil
	v.Zoom, v.Selected = nil, nil
	if v.Folding == FoldLibraries {
		v.foldLibraries()
	}
	if zoom != nil {
		v.Zoom = flamegraph.PathOf(v.shown(zoom))
	}
	if selected != nil {
		v.SelectNode(v.shown(selected))
	}
}

// foldLibraries makes the tree of the program's own code. The run that is zoomed into is open.
func (v *Flame) foldLibraries() {
	v.own = flamegraph.Fold(v.Whole, func(run *flamegraph.Node) bool {
		if len(v.Zoom) < run.Depth {
			return false
		}
		outermost := run.FuncKey
		outermost.Kind = flamegraph.FrameNode
		return slices.Equal(flamegraph.PathOf(run), v.Zoom[:run.Depth]) && (len(v.Zoom) == run.Depth || v.Zoom[run.Depth] == outermost)
	})
	v.Tree = v.own.Tree
}

// shown is the node of the tree shown that stands for one of the whole tree.
func (v *flamePicture) shown(n *flamegraph.Node) *flamegraph.Node {
	if v.own != nil {
		return v.own.Shown(n)
	}
	return n
}

// standsFor are the nodes of the whole tree that one of the tree shown stands for, of a run the outermost.
func (v *flamePicture) standsFor(n *flamegraph.Node) []*flamegraph.Node {
	if v.own != nil {
		return v.own.Of(n)
	}
	return []*flamegraph.Node{n}
}

// Under returns a test of what is a part of a node's weight.
func (v *flamePicture) Under(dict *sampler.Dictionary, n *flamegraph.Node) func(flamegraph.Key) bool {
	if v.own != nil {
		return v.own.Under(dict, n)
	}
	return v.Tree.Under(dict, n)
}

// findMatches fills in what the search matches under the zoomed node.
func (v *Flame) findMatches(zoom *flamegraph.Node) {
	v.Matches, v.inRun = flamegraph.Matches{}, nil
	switch {
	case v.Search == nil:
	case v.own != nil:
		v.Matches, v.inRun = v.own.Search(zoom, v.Search)
	default:
		v.Matches = zoom.Search(v.Search)
	}
}

// change is the change of a node's share of the whole.
func (v *Flame) change(n *flamegraph.Node) float64 {
	if v.own == nil {
		return v.Diff[n]
	}
	sum := 0.0
	for _, o := range v.own.Of(n) {
		if n.Kind == flamegraph.LeafNode {
			sum += v.diffSelf[o]
		} else {
			sum += v.Diff[o]
		}
	}
	return sum
}

// leastLabel is the width from which on a cell can be read.
const leastLabel = 6

// hidesOwn reports whether less than half of the weight of the program's own methods can be read in the first rows of
// the picture. The top of a file is none: bin/rails is one, too.
func (v *Flame) hidesOwn(rows int) bool {
	if v.Inverted || len(v.Zoom) > 0 || rows <= 0 || v.Whole.Samples < FewSamples {
		return false
	}
	var all, read int64
	var sum func(n *flamegraph.Node)
	sum = func(n *flamegraph.Node) { // as deep as the tree
		if ownMethod(n) {
			all += n.Total
			return
		}
		for _, c := range n.Children {
			sum(c)
		}
	}
	sum(v.Whole.Root)
	for _, row := range v.Picture.Rows[:min(rows, len(v.Picture.Rows))] {
		for i := range row {
			n := row[i].Node
			if n == nil || row[i].W < leastLabel || !ownMethod(n) {
				continue
			}
			outermost := true
			for p := n.Parent; p != nil && outermost; p = p.Parent {
				outermost = !ownMethod(p)
			}
			if outermost {
				read += n.Total
			}
		}
	}
	return 2*read < all
}

func ownMethod(n *flamegraph.Node) bool {
	return n.Kind == flamegraph.FrameNode && n.Own && !strings.HasPrefix(n.Label, "<")
}

const (
	// minFold is the length of a run of frames, each with one callee and next to no time of its own, from which on its
	// inner part is drawn as one row. Below it nothing would be gained.
	minFold = 4
	// foldShare is the part of a frame's time that its one callee must have for the frame to be folded away.
	foldShare = 0.999
)

// folded is a tree whose long runs without a branch are shortened to their first frame, a row that says how many are
// left out, and their last frame: of the eighty frames of a web framework under a request, those remain that tell
// something. It never hides a branch, nor time of a frame's own beyond a thousandth.
type folded struct {
	tree *flamegraph.Tree
	// original is the node of the whole tree that a node of the folded one stands for: for a row of left-out frames,
	// the outermost of them.
	original map[*flamegraph.Node]*flamegraph.Node
	shown    map[*flamegraph.Node]*flamegraph.Node // the other way round
}

// noFold is a tree in which nothing is folded: each node stands for itself.
func noFold(t *flamegraph.Tree) *folded { return &folded{tree: t} }

// OriginalOf is the node of the whole tree that a node stands for; nil for nil.
func (f *folded) OriginalOf(n *flamegraph.Node) *flamegraph.Node {
	if f.original == nil {
		return n
	}
	return f.original[n]
}

// show is the node that stands for one of the whole tree.
func (f *folded) show(n *flamegraph.Node) *flamegraph.Node {
	if f.shown == nil {
		return n
	}
	return f.shown[n]
}

// foldTree returns t folded. Nodes on the way to keep (a zoom) stay, and so do those that stay says (matches of a
// search).
func foldTree(t *flamegraph.Tree, keep *flamegraph.Node, stay func(*flamegraph.Node) bool) *folded {
	f := &folded{original: make(map[*flamegraph.Node]*flamegraph.Node, t.Nodes), shown: make(map[*flamegraph.Node]*flamegraph.Node, t.Nodes)}
	tree := *t
	onPath := make(map[*flamegraph.Node]bool)
	for n := keep; n != nil; n = n.Parent {
		onPath[n] = true
	}
	foldable := func(n *flamegraph.Node) bool {
		return n.Kind == flamegraph.FrameNode && !onPath[n] && !stay(n) && onlyChild(n) != nil
	}
	tree.Root = f.copy(t.Root, nil, foldable)
	f.tree = &tree
	return f
}

// onlyChild returns the one callee that has all but a thousandth of a frame's time; nil when there is none.
func onlyChild(n *flamegraph.Node) *flamegraph.Node {
	if len(n.Children) != 1 || float64(n.Children[0].Total) < foldShare*float64(n.Total) || n.Children[0].Kind != flamegraph.FrameNode {
		return nil
	}
	return n.Children[0]
}

// copyText copies n and all under it, at most Options.MaxDepth deep.
func (f *folded) copy(n, parent *flamegraph.Node, foldable func(*flamegraph.Node) bool) *flamegraph.Node {
	c := f.node(n, parent)
	if parent != nil && foldable(n) {
		// The run: n, what is left out, and the last frame, which is copied like any other.
		last, length := n, 1
		for foldable(last) {
			last = onlyChild(last)
			length++
		}
		if length >= minFold {
			first := onlyChild(n)
			gap := f.node(first, c)
			gap.FuncKey = flamegraph.FuncKey{Label: fmt.Sprintf("⋯ %d frames", length-2), Kind: flamegraph.CutNode}
			gap.Frame, gap.Self, gap.StateSelf = 0, 0, [gvl.NumStates]int64{}
			c.Children = []*flamegraph.Node{gap}
			gap.Children = []*flamegraph.Node{f.copy(last, gap, foldable)}
			for x := onlyChild(first); x != last; x = onlyChild(x) {
				f.shown[x] = gap
			}
			return c
		}
	}
	c.Children = make([]*flamegraph.Node, 0, len(n.Children))
	for _, child := range n.Children {
		c.Children = append(c.Children, f.copy(child, c, foldable))
	}
	return c
}

func (f *folded) node(n, parent *flamegraph.Node) *flamegraph.Node {
	c := new(flamegraph.Node)
	*c = *n
	c.Parent, c.Children = parent, nil
	if parent != nil {
		c.Depth = parent.Depth + 1
	}
	f.original[c], f.shown[n] = n, c
	return c
}
