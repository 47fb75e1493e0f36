package flamegraph

import (
	"fmt"
	"strings"
	"testing"
)

// treeOf builds a tree from lines of frames and a weight: "a;b 10".
func treeOf(t *testing.T, lines ...string) *Tree {
	t.Helper()
	root := &Node{FuncKey: FuncKey{Label: "all", Kind: RootNode}}
	out := &Tree{Root: root, Nodes: 1}
	for _, l := range lines {
		var stack string
		var w int64
		if _, err := fmt.Sscan(l, &stack, &w); err != nil {
			t.Fatal(err)
		}
		n := root
		n.Total += w
		for _, label := range strings.Split(stack, ";") {
			k := FuncKey{Label: label}
			c := n.Child(k)
			if c == nil {
				c = &Node{FuncKey: k, Parent: n, Depth: n.Depth + 1}
				n.Children = append(n.Children, c)
				out.Nodes++
			}
			c.Total += w
			n = c
		}
		n.Self += w
	}
	return out
}

// outline prints a tree on one line.
func outline(n *Node) string {
	s := n.Label
	if len(n.Children) == 0 {
		return s
	}
	parts := make([]string, len(n.Children))
	for i, c := range n.Children {
		parts[i] = outline(c)
	}
	if len(parts) == 1 {
		return s + ">" + parts[0]
	}
	return s + ">(" + strings.Join(parts, " ") + ")"
}

// TestFoldStraight: four kinds of nodes stay visible: branches, nodes with time of their own, the nodes above the
// zoomed node, and search results.
func TestFoldStraight(t *testing.T) {
	never := func(*Node) bool { return false }
	for _, tc := range []struct {
		name  string
		lines []string
		keep  string // label of the zoomed node
		stay  string // label that a search found
		want  string
	}{
		{"a short run stays", []string{"a;b;c 10"}, "", "", "all>a>b>c"},
		{"a long run keeps its ends", []string{"a;b;c;d;e 10"}, "", "", "all>a>⋯ 3 frames>e"},
		{"a branch ends a run", []string{"a;b;c;d;e 10", "a;b;c;d;f 10"}, "", "", "all>a>⋯ 2 frames>d>(e f)"},
		{"own time ends a run", []string{"a;b;c;d;e;f;g;h 10", "a;b;c;d 5"}, "", "", "all>a>⋯ 2 frames>d>e>⋯ 2 frames>h"},
		{"a thousandth does not", []string{"a;b;c;d;e 10000", "a;b 1"}, "", "", "all>a>⋯ 3 frames>e"},
		{"the way to the zoom stays", []string{"a;b;c;d;e;f;g;h 10"}, "c", "", "all>a>b>c>d>⋯ 3 frames>h"},
		{"what was found stays", []string{"a;b;c;d;e;f;g;h;i 10"}, "", "e", "all>a>⋯ 3 frames>e>f>⋯ 2 frames>i"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			whole := treeOf(t, tc.lines...)
			stay := never
			if tc.stay != "" {
				stay = func(n *Node) bool { return n.Label == tc.stay }
			}
			f := FoldStraight(whole, byLabel(whole.Root, tc.keep), stay)
			if got := outline(f.Tree.Root); got != tc.want {
				t.Errorf("folded %s\n got  %s\n want %s", outline(whole.Root), got, tc.want)
			}
			checkStraight(t, whole.Root, f)
		})
	}
}

// checkStraight compares each node under n, in the whole tree, with the node of the folded tree that represents it. If
// the second node is not a CutNode, both must have the same Total, and Folded.Of must return the first node.
func checkStraight(t *testing.T, n *Node, f *Folded) {
	t.Helper()
	s := f.Shown(n)
	if s == nil {
		t.Fatalf("%s has no place in the folded tree", n.Label)
	}
	if s.Total != n.Total && s.Kind != CutNode {
		t.Errorf("%s has %d, folded %d", n.Label, n.Total, s.Total)
	}
	if s.Kind != CutNode && f.Of(s)[0] != n {
		t.Errorf("%s leads to another node and back", n.Label)
	}
	for _, c := range n.Children {
		checkStraight(t, c, f)
	}
}

func byLabel(n *Node, label string) *Node {
	if n.Label == label {
		return n
	}
	for _, c := range n.Children {
		if x := byLabel(c, label); x != nil {
			return x
		}
	}
	return nil
}
