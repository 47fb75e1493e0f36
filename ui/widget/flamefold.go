package widget

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// Folding says which frames of a flamegraph are folded, so that several of them share one row.
type Folding uint8

const (
	// FoldByItself means that ddtop chooses how to fold. At first it folds as with FoldRuns. If the user can then read
	// less than half of the program's own code in the picture, it changes to FoldLibraries and stays there.
	FoldByItself Folding = iota
	// FoldLibraries folds all frames that are not the program's own code (flamegraph.Fold).
	FoldLibraries
	// FoldRuns folds long chains of frames in which each frame calls only the next one (flamegraph.FoldStraight).
	FoldRuns
	// FoldNothing shows all frames.
	FoldNothing
)

// NextFolding switches to the next way of folding, in a circle: only own code, then folded chains of frames, then all
// frames.
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

// ToggleLibraries switches between folded libraries and all frames.
func (v *Flame) ToggleLibraries() {
	if v.Folding == FoldLibraries {
		v.setFolding(FoldNothing)
	} else {
		v.setFolding(FoldLibraries)
	}
}

// setFolding changes the way of folding. It keeps the selection and the zoom, if the new picture has their frames.
func (v *Flame) setFolding(to Folding) {
	v.depth = 0 // forget how many rows the old picture needed
	if v.Folding = to; v.Tree == nil {
		return
	}
	v.keep(v.wholeNode(v.Selected), v.wholeNode(v.Zoom))
}

// wholeNode returns the node of the tree of all frames (Whole) for a path in the tree that is shown. Because of
// folding, a path may stand for several nodes. In this case it returns the heaviest of them. If there is no such node,
// it returns nil.
func (v *flamePicture) wholeNode(p flamegraph.Path) *flamegraph.Node {
	n, ok := v.Tree.Find(p)
	if !ok || len(p) == 0 {
		return nil
	}
	return slices.MaxFunc(v.standsFor(n), func(x, y *flamegraph.Node) int { return cmp.Compare(x.Total, y.Total) })
}

// keep folds the tree of all frames again, and then restores the selection and the zoom. selected and zoom are nodes of
// this tree, or nil.
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

// foldLibraries makes a tree of the program's own code, in which consecutive library frames become a single node (a
// run). If the user has zoomed into a run, its frames stay visible.
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

// shown returns the node of the shown tree (Tree) that stands for a node of the tree of all frames (Whole).
func (v *flamePicture) shown(n *flamegraph.Node) *flamegraph.Node {
	if v.own != nil {
		return v.own.Shown(n)
	}
	return n
}

// standsFor returns the nodes of the tree of all frames (Whole) that a node of the shown tree (Tree) represents. For a
// folded run, these are the outermost frames of the run.
func (v *flamePicture) standsFor(n *flamegraph.Node) []*flamegraph.Node {
	if v.own != nil {
		return v.own.Of(n)
	}
	return []*flamegraph.Node{n}
}

// Under returns a function that gets the key of a weight. The function reports whether the weight belongs to the node n
// or to a node below n.
func (v *flamePicture) Under(dict *sampler.Dictionary, n *flamegraph.Node) func(flamegraph.Key) bool {
	if v.own != nil {
		return v.own.Under(dict, n)
	}
	return v.Tree.Under(dict, n)
}

// findMatches finds the nodes that match the search, in the part of the tree that is zoomed. It sets Matches and inRun.
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

// change returns how much a node's share of the total has changed, compared with the weights in Base (see Diff).
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
	if n.Kind == flamegraph.LeafNode {
		for _, c := range n.Children {
			sum += v.change(c)
		}
	}
	return sum
}

const (
	// leastLabel is the least width of a cell, in columns, at which its label can be read.
	leastLabel = 6
	// leastToFold is a number of samples. With fewer samples, ddtop does not check whether the picture hides the
	// program's own code. A process with ten requests per second reaches this number in its first seconds.
	leastToFold = 10
)

// hidesOwn reports whether the first rows of the picture hide most of the program's own code. They do if less than half
// of the weight of the program's own methods can be read there. On each stack hidesOwn looks only at the innermost own
// method, because a method that wraps all requests shows nothing about their code. It also ignores the top level of a
// file. For example, the top level of bin/rails is the program's own code, but may contain all other code.
func (v *Flame) hidesOwn(rows int) bool {
	if v.Inverted || len(v.Zoom) > 0 || rows <= 0 || v.Whole.Samples < leastToFold {
		return false
	}
	readable := make(map[*flamegraph.Node]bool)
	for _, row := range v.Picture.Rows[:min(rows, len(v.Picture.Rows))] {
		for i := range row {
			if n := row[i].Node; n != nil && row[i].W >= leastLabel && v.gaps[n] == "" {
				readable[n] = true
			}
		}
	}
	var all, read int64
	var under func(n *flamegraph.Node) int64 // returns the weight of own methods in n and below
	under = func(n *flamegraph.Node) int64 { // the recursion is as deep as the tree
		var sum int64
		for _, c := range n.Children {
			sum += under(c)
		}
		if !ownMethod(n) {
			return sum
		}
		all += n.Total - sum
		if readable[n] {
			read += n.Total - sum
		}
		return n.Total
	}
	under(v.Whole.Root)
	return 2*read < all
}

func ownMethod(n *flamegraph.Node) bool {
	return n.Kind == flamegraph.FrameNode && n.Own && !strings.HasPrefix(n.Label, "<")
}

// original returns the node of Tree for a node of the picture. A row of the picture can stand for several frames. Then
// original returns the outermost of them. It returns nil for nil.
func (v *flamePicture) original(n *flamegraph.Node) *flamegraph.Node {
	if v.Fold == nil || n == nil {
		return n
	}
	return v.Fold.Of(n)[0]
}

// drawn returns the node of the picture that shows a node of Tree. It may stand for several frames.
func (v *flamePicture) drawn(n *flamegraph.Node) *flamegraph.Node {
	if v.Fold == nil {
		return n
	}
	return v.Fold.Shown(n)
}
