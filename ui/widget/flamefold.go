package widget

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// Folding says which frames of a flamegraph are folded into rows.
type Folding uint8

const (
	// FoldByItself first folds like foldRuns. If less than half of the program's own code is then on the screen, it
	// folds like foldLibraries from then on.
	FoldByItself Folding = iota
	// FoldLibraries folds what is not the program's own (flamegraph.Fold).
	FoldLibraries
	// FoldRuns folds long runs of frames without a branch (flamegraph.FoldStraight).
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
	v.depth = 0 // the rows that another picture needed
	if v.Folding = to; v.Tree == nil {
		return
	}
	v.keep(v.wholeNode(v.Selected), v.wholeNode(v.Zoom))
}

// wholeNode returns the node of the whole tree to which a path leads. If the path leads to several nodes, it returns
// the heaviest one. It returns nil if there is none.
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

// Under returns a function that reports whether a weight is a part of a node's weight.
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
	if n.Kind == flamegraph.LeafNode {
		for _, c := range n.Children {
			sum += v.change(c)
		}
	}
	return sum
}

const (
	// leastLabel is the width from which on a cell can be read.
	leastLabel = 6
	// leastToFold is the least number of samples with which the picture is checked for hidden own code. A process with
	// ten requests a second has as many in the first seconds.
	leastToFold = 10
)

// hidesOwn reports whether less than half of the weight of the program's own methods can be read in the first rows of
// the picture. For each stack only the innermost own method counts, because a method that wraps all requests shows
// nothing about their code. The top level of a file does not count, because bin/rails is one, too.
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
	var under func(n *flamegraph.Node) int64 // the weight of own methods
	under = func(n *flamegraph.Node) int64 { // as deep as the tree
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

// original returns the node of Tree that a node of the picture represents. For a row of left-out frames this is the
// outermost node. It returns nil for nil.
func (v *flamePicture) original(n *flamegraph.Node) *flamegraph.Node {
	if v.Fold == nil || n == nil {
		return n
	}
	return v.Fold.Of(n)[0]
}

// drawn is the node of the picture that stands for one of Tree.
func (v *flamePicture) drawn(n *flamegraph.Node) *flamegraph.Node {
	if v.Fold == nil {
		return n
	}
	return v.Fold.Shown(n)
}
