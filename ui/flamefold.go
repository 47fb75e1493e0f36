package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// folding says which frames of a flamegraph are folded into rows.
type folding uint8

const (
	// foldByItself is foldRuns until that has less than half of the program's own code on the screen: foldLibraries from then on.
	foldByItself folding = iota
	// foldLibraries folds what is not the program's own (flamegraph.Fold).
	foldLibraries
	// foldRuns folds long runs of frames without a branch (foldTree).
	foldRuns
	// foldNothing shows all frames.
	foldNothing
)

// nextFolding goes on from own code to folded runs, to everything, and back.
func (v *flameView) nextFolding() {
	switch v.folding {
	case foldNothing:
		v.setFolding(foldLibraries)
	case foldLibraries:
		v.setFolding(foldRuns)
	default:
		v.setFolding(foldNothing)
	}
}

// toggleLibraries goes from own code to everything and back.
func (v *flameView) toggleLibraries() {
	if v.folding == foldLibraries {
		v.setFolding(foldNothing)
	} else {
		v.setFolding(foldLibraries)
	}
}

// setFolding folds in another way. What is selected and zoomed into stays so, where the picture has it.
func (v *flameView) setFolding(to folding) {
	if v.folding = to; v.tree == nil {
		return
	}
	v.keep(v.wholeNode(v.selected), v.wholeNode(v.zoom))
}

// wholeNode is the node of the whole tree that a path leads to, the heaviest one where it stands for several; nil: there is none.
func (v *flameView) wholeNode(p flamegraph.Path) *flamegraph.Node {
	n, ok := v.tree.Find(p)
	if !ok || len(p) == 0 {
		return nil
	}
	return slices.MaxFunc(v.standsFor(n), func(x, y *flamegraph.Node) int { return cmp.Compare(x.Total, y.Total) })
}

// keep makes nodes of the whole tree the selected and zoomed ones of the picture as it is folded now.
func (v *flameView) keep(selected, zoom *flamegraph.Node) {
	v.tree, v.own = v.whole, nil
	v.zoom, v.selected = nil, nil
	if v.folding == foldLibraries {
		v.foldLibraries()
	}
	if zoom != nil {
		v.zoom = flamegraph.PathOf(v.shown(zoom))
	}
	if selected != nil {
		v.selectNode(v.shown(selected))
	}
}

// foldLibraries makes the tree of the program's own code. The run that is zoomed into is open.
func (v *flameView) foldLibraries() {
	v.own = flamegraph.Fold(v.whole, func(run *flamegraph.Node) bool {
		if len(v.zoom) < run.Depth {
			return false
		}
		outermost := run.FuncKey
		outermost.Kind = flamegraph.FrameNode
		return slices.Equal(flamegraph.PathOf(run), v.zoom[:run.Depth]) && (len(v.zoom) == run.Depth || v.zoom[run.Depth] == outermost)
	})
	v.tree = v.own.Tree
}

// shown is the node of the tree shown that stands for one of the whole tree.
func (v *flameView) shown(n *flamegraph.Node) *flamegraph.Node {
	if v.own != nil {
		return v.own.Shown(n)
	}
	return n
}

// standsFor are the nodes of the whole tree that one of the tree shown stands for, of a run the outermost.
func (v *flameView) standsFor(n *flamegraph.Node) []*flamegraph.Node {
	if v.own != nil {
		return v.own.Of(n)
	}
	return []*flamegraph.Node{n}
}

// under returns a test of what is a part of a node's weight.
func (v *flameView) under(dict *sampler.Dictionary, n *flamegraph.Node) func(flamegraph.Key) bool {
	if v.own != nil {
		return v.own.Under(dict, n)
	}
	return v.tree.Under(dict, n)
}

// findMatches fills in what the search matches under the zoomed node.
func (v *flameView) findMatches(zoom *flamegraph.Node) {
	v.matches, v.inRun = flamegraph.Matches{}, nil
	switch {
	case v.search == nil:
	case v.own != nil:
		v.matches, v.inRun = v.own.Search(zoom, v.search)
	default:
		v.matches = zoom.Search(v.search)
	}
}

// change is the change of a node's share of the whole.
func (v *flameView) change(n *flamegraph.Node) float64 {
	if v.own == nil {
		return v.diff[n]
	}
	sum := 0.0
	for _, o := range v.own.Of(n) {
		if n.Kind == flamegraph.LeafNode {
			sum += v.diffSelf[o]
		} else {
			sum += v.diff[o]
		}
	}
	return sum
}

// leastLabel is the width from which on a cell can be read.
const leastLabel = 6

// hidesOwn reports whether less than half of the weight of the program's own methods can be read in the first rows of the
// picture. The top of a file is none: bin/rails is one, too.
func (v *flameView) hidesOwn(rows int) bool {
	if v.inverted || len(v.zoom) > 0 || rows <= 0 || v.whole.Samples < fewSamples {
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
	sum(v.whole.Root)
	for _, row := range v.picture.Rows[:min(rows, len(v.picture.Rows))] {
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
