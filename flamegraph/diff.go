package flamegraph

import (
	"cmp"
	"maps"
	"slices"
)

// DiffNode is a node present in one of two trees or in both.
type DiffNode struct {
	FuncKey
	// Before and After are the nodes of either tree; nil where it has none.
	Before, After *Node
	// SelfDelta and TotalDelta are After minus Before, each first scaled to the scale Diff was asked for.
	SelfDelta, TotalDelta int64
	// Children are in the order of Node.Children.
	Children []*DiffNode
}

// Diff compares two trees node by node. A tree's weights are scaled so that its root weighs scale, which makes windows
// of different lengths comparable; scale 0 compares the weights as they are. The root's TotalDelta is then 0, and
// the children's TotalDeltas and the SelfDelta sum up to their parent's except for rounding to integers.
func Diff(before, after *Tree, scale int64) *DiffNode {
	return diff(before.Root, after.Root, scaler(before, scale), scaler(after, scale))
}

func scaler(t *Tree, scale int64) func(int64) int64 {
	if scale == 0 || t.Root.Total == 0 {
		return func(v int64) int64 { return v }
	}
	f := float64(scale) / float64(t.Root.Total)
	return func(v int64) int64 { return int64(float64(v)*f + 0.5) }
}

func diff(a, b *Node, sa, sb func(int64) int64) *DiffNode {
	d := &DiffNode{Before: a, After: b}
	var ca, cb []*Node
	if a != nil {
		d.FuncKey, ca = a.FuncKey, a.Children
		d.SelfDelta -= sa(a.Self)
		d.TotalDelta -= sa(a.Total)
	}
	if b != nil {
		d.FuncKey, cb = b.FuncKey, b.Children
		d.SelfDelta += sb(b.Self)
		d.TotalDelta += sb(b.Total)
	}
	for len(ca) > 0 || len(cb) > 0 { // a merge of two sorted lists
		switch {
		case len(cb) == 0 || len(ca) > 0 && compareKeys(ca[0].FuncKey, cb[0].FuncKey) < 0:
			d.Children = append(d.Children, diff(ca[0], nil, sa, sb))
			ca = ca[1:]
		case len(ca) == 0 || compareKeys(ca[0].FuncKey, cb[0].FuncKey) > 0:
			d.Children = append(d.Children, diff(nil, cb[0], sa, sb))
			cb = cb[1:]
		default:
			d.Children = append(d.Children, diff(ca[0], cb[0], sa, sb))
			ca, cb = ca[1:], cb[1:]
		}
	}
	return d
}

// DiffByName compares two trees by the labels of their nodes alone: of two recordings, between which files and lines have moved, and of
// different length, so that the weights of before are multiplied by a factor. visit is called for each node of after with by how much
// its own weight and its total have grown; and for what only before has, with a nil node. Of nodes with one label under one parent the
// heaviest is compared with all of them before. The root's are those of the whole.
func DiffByName(before, after *Tree, factor float64, visit func(after *Node, label string, self, total float64)) {
	diffByName([]*Node{before.Root}, after.Root, factor, visit)
}

// diffByName goes as deep as the trees.
func diffByName(before []*Node, after *Node, factor float64, visit func(*Node, string, float64, float64)) {
	self, total := float64(after.Self), float64(after.Total)
	children := make(map[string][]*Node)
	for _, b := range before {
		self -= float64(b.Self) * factor
		total -= float64(b.Total) * factor
		for _, c := range b.Children {
			children[c.Label] = append(children[c.Label], c)
		}
	}
	visit(after, after.Label, self, total)
	for _, c := range slices.SortedFunc(slices.Values(after.Children), func(x, y *Node) int { return cmp.Compare(y.Total, x.Total) }) {
		was := children[c.Label]
		delete(children, c.Label)
		diffByName(was, c, factor, visit)
	}
	for _, label := range slices.Sorted(maps.Keys(children)) {
		for _, c := range children[label] {
			gone(c, factor, visit)
		}
	}
}

// gone visits what is only before.
func gone(n *Node, factor float64, visit func(*Node, string, float64, float64)) {
	visit(nil, n.Label, -float64(n.Self)*factor, -float64(n.Total)*factor)
	for _, c := range n.Children {
		gone(c, factor, visit)
	}
}
