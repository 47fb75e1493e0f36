package flamegraph

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/internal/sorting"
)

// Diff compares two trees. It compares each node's share of its tree, so that the trees can cover times of different
// lengths.
type Diff struct {
	// BeforeWhole and AfterWhole are the weights that count as 100 % of the earlier and of the later tree.
	BeforeWhole, AfterWhole float64
	// ByName compares nodes only by their labels, because files and lines can move between two recordings. If ByName is
	// set, several children of a node can have the same label. Of these children in the later tree, only the heaviest
	// is compared. It is compared with the sum of all children with this label in the earlier tree. The other children
	// in the later tree count as new.
	ByName bool
	// Visit is called for each node. self and total are the growth of the node's own weight and of its Total. Growth is
	// the node's share of the later tree minus its share of the earlier tree. The parameter after is the node in the
	// later tree. It is nil for a node that only the earlier tree has.
	Visit func(after *Node, label string, self, total float64)
}

// Trees compares two trees to their full depth.
func (d *Diff) Trees(before, after *Tree) { d.nodes([]*Node{before.Root}, after.Root) }

func (d *Diff) nodes(before []*Node, after *Node) {
	self, total := float64(after.Self)/d.AfterWhole, float64(after.Total)/d.AfterWhole
	children := make(map[FuncKey][]*Node)
	for _, b := range before {
		self -= float64(b.Self) / d.BeforeWhole
		total -= float64(b.Total) / d.BeforeWhole
		for _, c := range b.Children {
			children[d.key(c)] = append(children[d.key(c)], c)
		}
	}
	d.Visit(after, after.Label, self, total)
	for _, c := range slices.SortedFunc(slices.Values(after.Children), func(x, y *Node) int { return cmp.Compare(y.Total, x.Total) }) {
		was := children[d.key(c)]
		delete(children, d.key(c))
		d.nodes(was, c)
	}
	for _, k := range sorting.Sorted(maps.Keys(children), compareKeys) {
		for _, c := range children[k] {
			d.gone(c)
		}
	}
}

func (d *Diff) key(n *Node) FuncKey {
	if d.ByName {
		return FuncKey{Label: n.Label}
	}
	return n.FuncKey
}

// gone visits a node of the earlier tree that the later tree lacks, and all nodes below it.
func (d *Diff) gone(n *Node) {
	d.Visit(nil, n.Label, -float64(n.Self)/d.BeforeWhole, -float64(n.Total)/d.BeforeWhole)
	for _, c := range n.Children {
		d.gone(c)
	}
}
