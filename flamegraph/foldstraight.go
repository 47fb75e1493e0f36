package flamegraph

import "fmt"

const (
	// minStraight is the least length of a straight run that is shortened, in frames. A straight run is a chain of
	// frames, each with one callee and almost no time in its own code. All frames of the run except the first and the
	// last become one row.
	minStraight = 4
	// straightShare decides whether a frame may be left out. Its only callee must have at least this share of the
	// frame's time.
	straightShare = 0.999
)

// FoldStraight shortens long runs without a branch. It keeps their first frame, a CutNode with the number of frames
// left out, and their last frame. For example, a web framework often adds eighty frames to a stack, and only the few
// informative frames remain. FoldStraight hides no branch, and no frame that spent more than a thousandth of its time
// in its own code. It never hides the node keep or its ancestors, nor a node for which stay returns true. Folded.Of
// returns one node for each row: for a CutNode, the outermost node that it hides.
func FoldStraight(t *Tree, keep *Node, stay func(*Node) bool) *Folded {
	onPath := make(map[*Node]bool)
	for n := keep; n != nil; n = n.Parent {
		onPath[n] = true
	}
	b := newFolder(t)
	b.Tree.Root = b.straight(t.Root, nil, func(n *Node) bool {
		return n.Kind == FrameNode && !onPath[n] && !stay(n) && onlyChild(n) != nil
	})
	return b.Folded
}

// onlyChild returns the only callee of a frame if this callee has all but a thousandth of the frame's time. Otherwise
// it returns nil.
func onlyChild(n *Node) *Node {
	if len(n.Children) != 1 || float64(n.Children[0].Total) < straightShare*float64(n.Total) || n.Children[0].Kind != FrameNode {
		return nil
	}
	return n.Children[0]
}

// straight copies n and all under it, at most Options.MaxDepth deep.
func (b *folder) straight(n, parent *Node, foldable func(*Node) bool) *Node {
	c := b.merge([]*Node{n}, parent)
	if parent != nil && foldable(n) {
		// The run has three parts: n, the frames to leave out, and the last frame. The last frame is copied like any
		// other.
		last, length := n, 1
		for foldable(last) {
			last = onlyChild(last)
			length++
		}
		if length >= minStraight {
			first := onlyChild(n)
			gap := b.merge([]*Node{first}, c)
			gap.FuncKey = FuncKey{Label: fmt.Sprintf("%s %d frames", ellipsisRun, length-2), Kind: CutNode}
			gap.Frame, gap.Self, gap.StateSelf = 0, 0, [len(gap.StateSelf)]int64{}
			c.Children = []*Node{gap}
			gap.Children = []*Node{b.straight(last, gap, foldable)}
			for x := onlyChild(first); x != last; x = onlyChild(x) {
				b.in[x] = gap
			}
			return c
		}
	}
	for _, child := range n.Children {
		c.Children = append(c.Children, b.straight(child, c, foldable))
	}
	return c
}
