package flamegraph

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
