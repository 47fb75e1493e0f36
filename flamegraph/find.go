package flamegraph

import (
	"regexp"
	"slices"
)

// Path is the path to a node: the keys of its ancestors from the root's child downward, and its own key. The screen
// keeps its zoom and selection as a Path, because each update of the screen builds new nodes.
type Path []FuncKey

// PathOf returns a node's path. It is empty for the root.
func PathOf(n *Node) Path {
	var p Path
	for ; n != nil && n.Parent != nil; n = n.Parent {
		p = append(p, n.FuncKey)
	}
	slices.Reverse(p)
	return p
}

// Find follows a path down the tree and returns the last node that it reaches. found is true if the whole path exists.
func (t *Tree) Find(p Path) (n *Node, found bool) {
	n = t.Root
	for _, k := range p {
		c := n.Child(k)
		if c == nil {
			return n, false
		}
		n = c
	}
	return n, true
}

// Child returns the child with the key k, or nil if there is none.
func (n *Node) Child(k FuncKey) *Node {
	i, ok := slices.BinarySearchFunc(n.Children, k, func(c *Node, k FuncKey) int { return compareKeys(c.FuncKey, k) })
	if !ok {
		return nil
	}
	return n.Children[i]
}

// Matches is the result of a search.
type Matches struct {
	// Nodes are the nodes whose label or file matches the regular expression of the search.
	Nodes map[*Node]bool
	// Total is the weight of the stacks with at least one match. A stack with several matches counts once.
	Total int64
	// Share is Total as a share of the searched node's Total, 0 to 1.
	Share float64
	// Self is the weight of stacks whose innermost shown frame matches.
	Self int64
}

// Search matches the labels and files of n and of all nodes below it.
func (n *Node) Search(re *regexp.Regexp) Matches {
	m := Matches{Nodes: make(map[*Node]bool)}
	memo := make(map[FuncKey]bool)
	n.search(re, false, memo, &m)
	if n.Total != 0 {
		m.Share = float64(m.Total) / float64(n.Total)
	}
	return m
}

func (n *Node) search(re *regexp.Regexp, under bool, memo map[FuncKey]bool, m *Matches) {
	hit := false
	if n.Kind == FrameNode || n.Parent != nil && n.Kind == RootNode {
		var ok bool
		if hit, ok = memo[n.FuncKey]; !ok {
			hit = frameMatches(re, n.Label, n.File)
			memo[n.FuncKey] = hit
		}
	}
	if hit {
		m.Nodes[n] = true
		m.Self += n.Self
		if !under {
			m.Total += n.Total
		}
	}
	for _, c := range n.Children { // depth is bounded by Options.MaxDepth
		c.search(re, under || hit, memo, m)
	}
}
