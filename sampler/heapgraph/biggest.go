package heapgraph

import (
	"cmp"
	"slices"
)

// ShownBig limits how many large objects of a type are shown. MaxValue limits how many bytes of a String are shown.
const (
	ShownBig = 10
	MaxValue = 64
)

// Big is a large object. It can also stand for several Strings with the same bytes. Its Node is then the first of these
// Strings.
type Big struct {
	Node     uint32
	Size     uint64
	Length   uint64
	Retained uint64
	// Reached is true if the object can be reached from a root over references. Otherwise it has no Path.
	Reached bool
	Path    Path
	// Objects is how many Strings have the same bytes. Wasted is how much memory would be saved if only the largest of
	// these Strings existed, in bytes.
	Objects int
	Wasted  uint64
}

// Largest returns the objects of a type that have the most memory themselves, without the objects that they refer to.
// It returns at most limit objects, the largest first.
func (g *Graph) Largest(typ string, limit int) []Big {
	var list []uint32
	want, ok := g.nameIndex[typ]
	for i := range g.Nodes {
		if ok && g.Nodes[i].Type == want {
			list = append(list, uint32(i))
		}
	}
	slices.SortFunc(list, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(g.Nodes[b].Size, g.Nodes[a].Size), cmp.Compare(a, b))
	})
	out := make([]Big, 0, limit)
	for _, n := range list[:min(len(list), limit)] {
		out = append(out, Big{Node: n, Objects: 1})
	}
	g.explain(out)
	return out
}

// Copies describes the Strings of a heap that have the same bytes as another String.
type Copies struct {
	// Strings is how many Strings were compared, and Different is how many different texts they have. Wasted is how
	// many bytes would be saved if each text existed only once.
	Strings, Different int
	Wasted             uint64
	// Groups has an element for each text that several Strings have. The text that wastes the most bytes comes first.
	Groups []Big
}

// Copies finds Strings with the same bytes, among the Strings whose bytes were read. limit limits the returned groups.
func (g *Graph) Copies(limit int) (c Copies) {
	type group struct {
		first          uint32
		objects        int
		bytes, largest uint64
	}
	groups := make(map[uint64]*group)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Content == 0 {
			continue
		}
		c.Strings++
		same := groups[n.Content]
		if same == nil {
			same = &group{first: uint32(i)}
			groups[n.Content] = same
		}
		same.objects++
		same.bytes += n.Size
		same.largest = max(same.largest, n.Size)
	}
	c.Different = len(groups)
	var list []*group
	for _, same := range groups {
		c.Wasted += same.bytes - same.largest
		if same.objects > 1 {
			list = append(list, same)
		}
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.bytes-b.largest, a.bytes-a.largest), cmp.Compare(a.first, b.first))
	})
	for _, same := range list[:min(len(list), limit)] {
		c.Groups = append(c.Groups, Big{Node: same.first, Objects: same.objects, Wasted: same.bytes - same.largest})
	}
	g.explain(c.Groups)
	return c
}

// explain fills in the sizes and the path from a root for each object in list.
func (g *Graph) explain(list []Big) {
	g.plan()
	g.dominate()
	t := g.tree()
	for i := range list {
		b := &list[i]
		b.Size, b.Length, b.Retained = g.Nodes[b.Node].Size, g.Nodes[b.Node].Length, g.retained[b.Node]
		if b.Reached = g.parents[b.Node] != 0 && g.dominators[b.Node] != none; b.Reached {
			b.Path = t.show(t.path(b.Node))
		}
	}
}
