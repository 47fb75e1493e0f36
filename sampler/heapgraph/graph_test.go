package heapgraph

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// reach returns which nodes can be reached from the roots. The parameter without is the number of a node that is
// treated as removed.
func reach(g *Graph, without int) []bool {
	seen := make([]bool, len(g.Nodes))
	var stack []uint32
	push := func(n uint32) {
		if int(n) != without && !seen[n] {
			seen[n] = true
			stack = append(stack, n)
		}
	}
	for _, r := range g.Roots {
		push(r.Node)
	}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		to, _ := g.References(n)
		for _, m := range to {
			push(m)
		}
	}
	return seen
}

// TestRetained: in random graphs, the retained size of an object must be the size of all objects that become
// unreachable if the object is removed.
func TestRetained(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		g := New()
		typ := g.Name(TypeArray)
		n := 1 + random.IntN(40)
		for i := range n {
			g.Nodes = append(g.Nodes, Node{Addr: uint64(i), Size: 1 + random.Uint64N(1000), Type: typ, Class: typ})
		}
		for range random.IntN(3 * n) {
			g.Edge(random.Uint32N(uint32(n)), random.Uint32N(uint32(n)), 0)
		}
		for range 1 + random.IntN(3) {
			g.Root("root", random.Uint32N(uint32(n)))
		}
		g.Finish()
		all := reach(g, -1)
		for i := range n {
			bytes, ok := g.Retained(uint32(i))
			if ok != all[i] {
				t.Fatalf("node %d is reached: %v", i, all[i])
			}
			want := uint64(0)
			without := reach(g, i)
			for k := range n {
				if all[k] && !without[k] {
					want += g.Nodes[k].Size
				}
			}
			if bytes != want {
				t.Fatalf("node %d retains %d, not %d", i, bytes, want)
			}
		}
	}
}

// build makes a graph of named nodes. The first letter of a name is the node's class. An edge is "a b label".
func build(nodes []string, edges [][3]string, roots [][2]string) *Graph {
	g := New()
	index := make(map[string]uint32)
	for i, n := range nodes {
		index[n] = uint32(i)
		typ := "T_OBJECT"
		switch n[0] {
		case 'K':
			if typ = TypeClass; n != "K" {
				typ = "T_OBJECT"
			}
		case 'i':
			typ = TypeImemo
		}
		g.Nodes = append(g.Nodes, Node{Addr: uint64(i + 1), Size: 10, Type: g.Name(typ), Class: g.Name(n[:1])})
	}
	for _, e := range edges {
		g.Edge(index[e[0]], index[e[1]], g.Label(e[2]))
	}
	for _, r := range roots {
		g.Root(r[0], index[r[1]])
	}
	g.Finish()
	return g
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []string
		edges [][3]string
		roots [][2]string
		want  string
	}{
		{"a constant", []string{"K", "H", "x"}, [][3]string{{"K", "H", "CACHE"}, {"H", "x", ""}}, [][2]string{{"", "K"}}, "K::CACHE (H) → x"},
		{"a class's variable", []string{"K", "A", "x"}, [][3]string{{"K", "A", "@@all"}, {"A", "x", ""}}, [][2]string{{"", "K"}}, "K.@@all (A) → x"},
		{"an object's variable", []string{"G", "A", "x"}, [][3]string{{"G", "A", "@list"}, {"A", "x", ""}}, [][2]string{{"$g", "G"}}, "$g (G) → @list (A) → x"},
		{"a list", []string{"L", "L1", "L2", "L3", "x"}, [][3]string{{"L", "L1", "@n"}, {"L1", "L2", "@n"}, {"L2", "L3", "@n"}, {"L3", "x", "@v"}},
			[][2]string{{"$l", "L"}}, "$l (L) … → @v (x)"},
		{"a cycle of two", []string{"A", "B", "A1", "B1", "A2", "B2", "x"}, [][3]string{{"A", "B", "@b"}, {"B", "A1", "@a"}, {"A1", "B1", "@b"},
			{"B1", "A2", "@a"}, {"A2", "B2", "@b"}, {"B2", "x", ""}}, [][2]string{{"$l", "A"}}, "$l (A) → @b (B) → @a (A) … → @b (B) → x"},
		{"Ruby's own object between", []string{"K", "i", "A", "x"}, [][3]string{{"K", "i", ""}, {"i", "A", "@list"}, {"A", "x", ""}}, [][2]string{{"", "K"}},
			"K.@list (A) → x"},
		{"an object of the class whose constant holds it", []string{"K", "K1", "x"}, [][3]string{{"K", "K1", "ONE"}, {"K1", "x", "@v"}},
			[][2]string{{"", "K"}}, "K::ONE (K) → @v (x)"},
		{"code", []string{"K", "i", "x"}, [][3]string{{"K", "i", ""}, {"i", "x", ""}}, [][2]string{{"", "K"}}, "K (code) (x)"},
	} {
		g := build(c.nodes, c.edges, c.roots)
		h := g.HoldersOf(g.OfClass("x"), 5)
		if len(h.Paths) != 1 || h.Paths[0].String() != c.want || h.Objects != 1 || h.Unreached != 0 {
			t.Errorf("%s: %+v, want %s", c.name, h, c.want)
			for _, p := range h.Paths {
				t.Log(p.String())
			}
		}
	}
}

// TestPathsOfTree: in a tree of a hundred thousand objects, each object refers to two others by the variables @left and
// @right. A path shows repeated steps only once. So all objects together must have at most two paths.
func TestPathsOfTree(t *testing.T) {
	g := New()
	typ, class := g.Name("T_OBJECT"), g.Name("Tree")
	const n = 100_000
	for i := range uint32(n) {
		g.Nodes = append(g.Nodes, Node{Addr: uint64(i), Size: 1, Type: typ, Class: class})
		for k, label := range []string{"@left", "@right"} {
			if child := 2*i + 1 + uint32(k); child < n {
				g.Edge(i, child, g.Label(label))
			}
		}
	}
	g.Root("$tree", 0)
	g.Finish()
	h := g.HoldersOf(g.OfClass("Tree"), 5)
	if len(h.Paths) > 2 || h.More > 0 || h.Retained != n || h.Paths[0].HolderRetained != n {
		t.Errorf("%d paths: %+v", len(h.Paths)+h.More, h)
	}
}

// TestUnreached: objects that no root reaches must be counted as unreached. The retained size of a set of objects must
// not count an object twice.
func TestUnreached(t *testing.T) {
	g := build([]string{"x1", "x2", "x3"}, [][3]string{{"x1", "x2", "@n"}}, [][2]string{{"$a", "x1"}})
	h := g.HoldersOf(g.OfClass("x"), 5)
	if h.Objects != 3 || h.Unreached != 1 || h.UnreachedSize != 10 || h.Retained != 20 {
		t.Errorf("%+v", h)
	}
	if n, ok := g.At(3); !ok || n != 2 || slices.Contains(g.OfClass("nobody"), n) {
		t.Error("At")
	}
}
