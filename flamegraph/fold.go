package flamegraph

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
)

// minRun is the smallest number of consecutive frames outside the program's own code that are folded into one row. A
// shorter run is shown in full.
const minRun = 3

// Folded is a tree in which each run is one row. A run is several consecutive frames that are not the program's own
// code (Node.Own). It begins at a frame and includes everything that this frame calls, in all branches, up to the
// program's own code. The own code that a run calls is below the run's row. Each own function has one node there, even
// if several branches of the run call it.
//
// Two kinds of C functions keep their own nodes: functions that own code calls, and functions in which a run spends
// time. No frame of the program's own is folded, and no time is lost. As in the whole tree, a node's Total is its Self
// plus the Totals of its children. The Self of a run is the time spent in its frames.
//
// In a tree with callees first (Options.Inverted) the first row is never folded, because it shows the code that was
// executed. The own code below a run is then the code that calls the run.
type Folded struct {
	Tree *Tree
	// Whole is the tree that was folded.
	Whole *Tree

	// of maps each node to the nodes of Whole that it represents. For a row of folded frames (a run), these are its
	// outermost frames.
	of   map[*Node][]*Node
	in   map[*Node]*Node // for a frame that is folded into a run, the run's node
	leaf map[*Node]*Node // for a frame in which a run spends time, its LeafNode
}

// run describes the frames of a RunNode, a row that represents several frames.
type run struct {
	frames    int // the number of frames on the heaviest path through the run
	libraries []string
}

// Fold folds a tree: each run of frames that are not the program's own becomes one row. If the function open returns
// true for a run, the run is not folded, and its frames are below its row. open may be nil. The node that is passed to
// open has its Parent, but no children yet.
func Fold(t *Tree, open func(run *Node) bool) *Folded {
	b := newFolder(t)
	b.open = open
	b.Tree.Root = b.merge([]*Node{t.Root}, nil)
	b.fill(b.Tree.Root, []*Node{t.Root})
	return b.Folded
}

// folder builds a Folded. Its recursion is bounded by the depth of the tree.
type folder struct {
	*Folded
	open func(*Node) bool
}

func newFolder(t *Tree) *folder {
	tree := *t
	tree.Nodes, tree.MaxDepth = 0, 0
	return &folder{Folded: &Folded{Tree: &tree, Whole: t, of: make(map[*Node][]*Node), in: make(map[*Node]*Node, t.Nodes), leaf: make(map[*Node]*Node)}}
}

// merge makes one node of the folded tree from several nodes of the whole tree that have equal keys, and adds up their
// weights. The new node has no children yet.
func (b *folder) merge(nodes []*Node, parent *Node) *Node {
	c := new(Node)
	*c = *nodes[0]
	for _, n := range nodes[1:] {
		c.Self, c.Total = c.Self+n.Self, c.Total+n.Total
		c.Uncertain = c.Uncertain || n.Uncertain
		c.severalLines = c.severalLines || n.severalLines || n.ExecLine != c.ExecLine
		for st := range n.StateSelf {
			c.StateSelf[st] += n.StateSelf[st]
			c.StateTotal[st] += n.StateTotal[st]
		}
	}
	for _, n := range nodes {
		b.in[n] = c
	}
	b.of[c] = nodes
	b.place(c, parent)
	return c
}

func (b *folder) place(c, parent *Node) {
	c.Parent, c.Children, c.Depth = parent, nil, 0
	if parent != nil {
		c.Depth = parent.Depth + 1
	}
	b.Tree.Nodes++
	b.Tree.MaxDepth = max(b.Tree.MaxDepth, c.Depth)
}

// fill adds the children of a node: a node for each frame of own code, and a row for each run of other code.
func (b *folder) fill(c *Node, nodes []*Node) {
	for _, group := range childGroups(nodes) {
		first := group[0]
		inverted := b.Tree.Options.Inverted
		stays := first.Own || first.Native || first.Kind != FrameNode ||
			c.Own && first.Library == coreLibrary && !inverted || c.Parent == nil && inverted
		if !stays && depthOfRun(group, minRun) >= minRun {
			b.addRun(c, group)
			continue
		}
		k := b.merge(group, c)
		c.Children = append(c.Children, k)
		b.fill(k, group)
	}
	sortChildren(c)
}

// childGroups returns the children of nodes, grouped by equal keys.
func childGroups(nodes []*Node) [][]*Node {
	if len(nodes) == 1 {
		kids := nodes[0].Children
		out := make([][]*Node, len(kids))
		for i := range kids {
			out[i] = kids[i : i+1 : i+1]
		}
		return out
	}
	var all []*Node
	for _, n := range nodes {
		all = append(all, n.Children...)
	}
	return equalTogether(all)
}

// equalTogether sorts nodes by their keys, and returns the groups with equal keys.
func equalTogether(all []*Node) (out [][]*Node) {
	slices.SortStableFunc(all, func(x, y *Node) int { return compareKeys(x.FuncKey, y.FuncKey) })
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].FuncKey == all[from].FuncKey {
			to++
		}
		out = append(out, all[from:to:to])
		from = to
	}
	return out
}

func sortChildren(c *Node) {
	slices.SortFunc(c.Children, func(x, y *Node) int { return compareKeys(x.FuncKey, y.FuncKey) })
}

// folds reports whether a frame can be in a run, that is, one of several frames that are folded into one row. It cannot
// be in a run if it is the program's own code, or a C function of a native stack.
func (n *Node) folds() bool { return n.Kind == FrameNode && !n.Own && !n.Native }

// native returns the children of n that are C functions. These functions are known from a copy of the native stack (the
// stack of C code).
func (n *Node) native() (out []*Node) {
	for _, k := range n.Children {
		if k.Native {
			out = append(out, k)
		}
	}
	return out
}

// coreLibrary is the name (Node.Library) under which Ruby's core and C functions appear.
const coreLibrary = "ruby"

// depthOfRun returns the number of frames on the longest path through a run (frames that become one row). nodes are the
// frames with which the run begins. depthOfRun counts up to the parameter most, and follows no path beyond this depth.
func depthOfRun(nodes []*Node, most int) (depth int) {
	if most == 0 {
		return 0
	}
	for _, n := range nodes {
		for _, k := range n.Children {
			if k.folds() && depth < most-1 {
				depth = max(depth, depthOfRun([]*Node{k}, most-1))
			}
		}
	}
	return depth + 1
}

// addRun adds to a node the run that begins with the given frames, which have equal keys. A run is a group of frames
// outside the program's own code that become one row.
func (b *folder) addRun(c *Node, outermost []*Node) {
	r := b.merge(outermost, c)
	r.Kind, r.Frame, r.C, r.run = RunNode, 0, false, describeRun(outermost)
	c.Children = append(c.Children, r)
	if b.open != nil && b.open(r) {
		r.Self, r.StateSelf = 0, [len(r.StateSelf)]int64{}
		k := b.merge(outermost, r)
		r.Children = []*Node{k}
		b.fillOpen(k, outermost)
		return
	}
	var below, leaves []*Node
	r.Self, r.StateSelf = 0, [len(r.StateSelf)]int64{}
	var walk func(n *Node)
	walk = func(n *Node) {
		b.in[n] = r
		if n.Self > 0 && n.Library == coreLibrary && !b.Tree.Options.Inverted || len(n.native()) > 0 {
			leaves = append(leaves, n)
		} else {
			r.Self += n.Self
			for st, v := range n.StateSelf {
				r.StateSelf[st] += v
			}
		}
		for _, k := range n.Children {
			if k.folds() {
				walk(k)
			} else if !k.Native {
				below = append(below, k)
			}
		}
	}
	for _, n := range outermost {
		walk(n)
	}
	for _, group := range equalTogether(below) {
		k := b.merge(group, r)
		r.Children = append(r.Children, k)
		b.fill(k, group)
	}
	for _, group := range equalTogether(leaves) {
		r.Children = append(r.Children, b.leafOf(group, r))
	}
	sortChildren(r)
}

// fillOpen adds the children of a frame in an open run: a run whose frames are shown and not folded into one row.
func (b *folder) fillOpen(c *Node, nodes []*Node) {
	for _, group := range childGroups(nodes) {
		k := b.merge(group, c)
		c.Children = append(c.Children, k)
		if group[0].folds() {
			b.fillOpen(k, group)
		} else {
			b.fill(k, group)
		}
	}
}

// leafOf makes a child of the run r, a row of folded frames. The child has the time that one function spent in its own
// code. The parameter nodes has all nodes of this function in the run. The function may have called C functions that
// are known from a native stack. They become children of the new node.
func (b *folder) leafOf(nodes []*Node, r *Node) *Node {
	c := new(Node)
	*c = *nodes[0]
	c.Kind, c.Self, c.StateSelf = LeafNode, 0, [len(c.StateSelf)]int64{}
	for _, n := range nodes {
		c.Self += n.Self
		for st, v := range n.StateSelf {
			c.StateSelf[st] += v
		}
		b.leaf[n] = c
	}
	c.Total, c.StateTotal = c.Self, c.StateSelf
	b.of[c] = nodes
	b.place(c, r)
	var native []*Node
	for _, n := range nodes {
		native = append(native, n.native()...)
	}
	for _, group := range equalTogether(native) {
		k := b.merge(group, c)
		c.Children = append(c.Children, k)
		c.Total += k.Total
		for st, v := range k.StateTotal {
			c.StateTotal[st] += v
		}
		b.fill(k, group)
	}
	return c
}

// describeRun returns the number of frames and the libraries of a run (frames that become one row). It counts the
// frames on the heaviest path.
func describeRun(outermost []*Node) *run {
	out := &run{}
	at := outermost
	for len(at) > 0 {
		n := slices.MaxFunc(at, func(x, y *Node) int { return cmp.Compare(x.Total, y.Total) })
		if out.frames > 0 && !n.folds() {
			break
		}
		out.frames++
		out.libraries = append(out.libraries, n.Library)
		at = n.Children
	}
	out.libraries = names(out.libraries)
	return out
}

// Text returns the text of a node's row: its Label, or the number of frames and their library for a run of several
// frames.
func (n *Node) Text() string {
	if n.run == nil {
		return n.Label
	}
	return n.run.text()
}

func (r *run) text() string {
	return ellipsisRun + " " + units.Plural(r.frames, "frame", "frames") + ": " + strings.Join(r.libraries, ", ")
}

// ellipsisRun begins the text of a row that represents several frames.
const ellipsisRun = "⋯"

// Code returns the name of a node for people. If the name does not contain the place in the code, Code also returns the
// file and the first line. A template has no first line. Its name has the executed line instead, if only one line was
// executed: "orders/_row.html.erb:4".
func (n *Node) Code() (name, place string) {
	line := n.Line
	switch {
	case n.File == "":
		return n.Text(), ""
	case line == 0 && !n.severalLines:
		line = n.ExecLine
	}
	place = n.File
	if line != 0 {
		place += ":" + strconv.Itoa(int(line))
	}
	return gvl.AddLine(n.Text(), place)
}

// Fit returns Text in at most width columns. For a row of several frames (a run), it drops the number of frames first
// if the text is too long.
func (n *Node) Fit(width int) string {
	if n.run == nil {
		return LabelFit(n.Text(), width)
	}
	text := Printable(n.Text())
	names := Printable(strings.Join(n.run.libraries, ", "))
	if columns(text) <= width {
		return text
	}
	if short := ellipsisRun + " " + names; columns(short) <= width || columns(ellipsisRun+" "+n.run.libraries[0]) > width-len("30 frames: ") {
		text = short
	}
	return cut(text, width)
}

// PathIn returns the path of a frame in an open run (a row whose frames are shown). It is the path of the run, followed
// by the frames of the run down to inside. inside is a node of Whole, the tree before folding.
func (f *Folded) PathIn(run, inside *Node) Path {
	var p Path
	for n := inside; n != nil; n = n.Parent {
		p = append(p, n.FuncKey)
		if slices.Contains(f.of[run], n) {
			break
		}
	}
	slices.Reverse(p)
	return append(PathOf(run), p...)
}

// Shown returns the node of the folded tree that represents the node n of the whole tree. It is the same frame, or the
// row of folded frames (run) that contains it.
func (f *Folded) Shown(n *Node) *Node { return f.in[n] }

// Of returns the nodes of the whole tree that the node n of the folded tree represents. If n is a row of folded frames
// (a run), these are the outermost frames in it.
func (f *Folded) Of(n *Node) []*Node { return f.of[n] }

// Search searches n and all nodes below it, as Node.Search does. A row of folded frames (a run) matches if one of its
// frames matches. The result inside has the heaviest matching frame of each such run.
func (f *Folded) Search(n *Node, re *regexp.Regexp) (m Matches, inside map[*Node]*Node) {
	m.Nodes, inside = make(map[*Node]bool), make(map[*Node]*Node)
	whole := Matches{Nodes: make(map[*Node]bool)}
	memo := make(map[FuncKey]bool)
	if n.Kind == LeafNode { // a leaf is a function's own time, and only C functions of native stacks can be below it
		m = n.Search(re)
		if frameMatches(re, n.Label, n.File) {
			m.Nodes[n], m.Total, m.Self, m.Share = true, n.Total, m.Self+n.Self, 1
		}
		return m, inside
	}
	for _, o := range f.of[n] {
		o.search(re, false, memo, &whole)
	}
	m.Total, m.Self = whole.Total, whole.Self
	if n.Total != 0 {
		m.Share = float64(m.Total) / float64(n.Total)
	}
	for hit := range whole.Nodes {
		s := f.in[hit]
		m.Nodes[s] = true
		if l := f.leaf[hit]; l != nil {
			m.Nodes[l] = true
		}
		if best := inside[s]; s.Kind == RunNode && (best == nil || hit.Total > best.Total || hit.Total == best.Total && hit.Depth < best.Depth) {
			inside[s] = hit
		}
	}
	return m, inside
}
