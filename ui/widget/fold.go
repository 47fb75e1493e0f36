package widget

import (
	"fmt"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
)

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
