package flamegraph

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// These are labels of the nodes that are not frames.
const (
	rootLabel = "all"
	cutLabel  = "… (cut)"
	// NoStack is the label of time without a stack.
	NoStack = "(no stack)"
)

// funcInfo is the data about a frame that a Builder keeps from one tree to the next.
type funcInfo struct {
	known      bool
	hide, keep bool
	f          sampler.Frame
	own        bool
	library    string // "" for own code
	from       sampler.Origin
	// function and line are numbers that represent the frame's FuncKey. function is for trees that merge by function,
	// and line for trees that merge by line. A number is zero if it is not assigned yet.
	function, line int32
}

// childKey identifies a child node. parent is the index of its parent, and key is the number of its FuncKey.
type childKey struct {
	parent, key int32
}

// A trieStep is a stack and its innermost frame. When the Builder walks from a stack outward, it keeps a trieStep for
// each frame.
type trieStep struct {
	stack sampler.StackID
	frame sampler.FrameID
}

type stackRoot struct {
	root  int32
	stack sampler.StackID
}

// maxInfos is the largest number of frames about which a Builder keeps data (infos). If there are more, the Builder
// drops all infos. It also drops them if old entries were removed from the Dictionary, which then has a new generation.
const maxInfos = 1 << 16

// Builder builds Trees. Between builds it keeps memory to use again, and data that do not change: the frames of a
// Dictionary and the numbers of functions. A Tree stays valid when the Builder builds another one. Only one goroutine
// at a time may use a Builder.
type Builder struct {
	dict    *sampler.Dictionary
	infos   map[sampler.FrameID]*funcInfo
	seenIn  sampler.Generation // the Dictionary's generation to which infos belong
	keys    []FuncKey          // by number; the first is unused
	numbers map[FuncKey]int32

	opt      Options
	nodes    []*Node
	kids     []int32 // number of children of each node
	slab     []Node
	children map[childKey]int32
	memo     map[stackRoot]int32
	kept     map[sampler.StackID]bool
	roots    map[sampler.ThreadID]int32
	frames   []sampler.FrameID
	way      []trieStep
	order    []int32
	full     bool
}

// NewBuilder returns a Builder of trees. Their stacks and frames have the IDs of the Dictionary d.
func NewBuilder(d *sampler.Dictionary) *Builder {
	return &Builder{
		dict: d, infos: make(map[sampler.FrameID]*funcInfo), keys: make([]FuncKey, 1), numbers: make(map[FuncKey]int32), children: make(map[childKey]int32),
		memo: make(map[stackRoot]int32), kept: make(map[sampler.StackID]bool), roots: make(map[sampler.ThreadID]int32),
	}
}

// number returns a FuncKey's number.
func (b *Builder) number(k FuncKey) int32 {
	n, ok := b.numbers[k]
	if !ok {
		n = int32(len(b.keys))
		b.keys = append(b.keys, k)
		b.numbers[k] = n
	}
	return n
}

// Build builds a tree from a snapshot. It does not fail. One special node has the time without a stack. The same node
// has the time of stacks that the snapshot lacks because of a limit. When MaxNodes is reached, the inner frames of the
// lightest stacks are cut.
func (b *Builder) Build(s *Snapshot, o Options) *Tree {
	if o.MaxDepth <= 0 {
		o.MaxDepth = defaultMaxDepth
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = defaultMaxNodes
	}
	if o.States == 0 {
		o.States = AllStates
	}
	b.forget(o)
	b.order = b.order[:0]
	for i := range s.Entries {
		b.order = append(b.order, int32(i))
	}
	t := b.fill(s)
	if b.full {
		// The tree is too large, so the lightest stacks are cut. The choice must not depend on the order of the
		// snapshot.
		slices.SortFunc(b.order, func(x, y int32) int {
			ex, ey := &s.Entries[x], &s.Entries[y]
			return cmp.Or(cmp.Compare(ey.Weights.Of(o.Metric), ex.Weights.Of(o.Metric)),
				cmp.Compare(ex.Key.Stack, ey.Key.Stack), cmp.Compare(ex.Key.Thread, ey.Key.Thread), cmp.Compare(ex.Key.State, ey.Key.State))
		})
		b.forget(o)
		t = b.fill(s)
	}
	b.finish(t)
	return t
}

func (b *Builder) forget(o Options) {
	b.opt, b.full = o, false
	clear(b.nodes) // without this, the pointers to an earlier, larger tree would keep all of it in memory
	b.nodes, b.kids, b.slab = b.nodes[:0], b.kids[:0], nil
	clear(b.children)
	clear(b.memo)
	clear(b.kept)
	clear(b.roots)
	// infos must be bounded: a program that redefines its methods has new frames all the time.
	if g := b.dict.Generation(); g != b.seenIn || len(b.infos) > maxInfos {
		b.seenIn = g
		clear(b.infos)
		clear(b.numbers)
		b.keys = b.keys[:1]
	}
	// Hide and Keep can differ from the last build, so decide again about each frame
	for _, in := range b.infos {
		in.known = in.known && o.Hide == nil && o.Keep == nil
		in.hide, in.keep = false, false
	}
}

func (b *Builder) fill(s *Snapshot) *Tree {
	t := &Tree{Metric: b.opt.Metric, Options: b.opt, FromNS: s.FromNS, ToNS: s.ToNS}
	if t.Metric == Allocations {
		t.Allocations = s.Allocations()
	}
	value := s.Values(b.opt.Metric)
	b.newNode(-1, FuncKey{Label: rootLabel, Kind: RootNode}, 256)
	for _, i := range b.order {
		e := &s.Entries[i]
		w := value(e.Weights)
		if !b.wanted(e) {
			t.Excluded += w
			continue
		}
		t.Samples += e.Weights.Samples
		if w == 0 {
			continue
		}
		n := b.nodes[b.leaf(e)]
		n.Self += w
		n.StateSelf[e.Key.State] += w
	}
	return t
}

func (b *Builder) wanted(e *Entry) bool {
	if wants := b.opt.wants(&e.Key); !wants || b.opt.Keep == nil {
		return wants
	}
	keep, ok := b.kept[e.Key.Stack]
	if !ok {
		b.frames = b.dict.Frames(e.Key.Stack, b.frames[:0])
		keep = slices.ContainsFunc(b.frames, func(f sampler.FrameID) bool { return b.info(f).keep })
		b.kept[e.Key.Stack] = keep
	}
	return keep
}

// leaf returns the node of the last frame in an entry's stack. The entry's weight is added to this node. If the tree
// lacks nodes of the stack, leaf makes them.
func (b *Builder) leaf(e *Entry) int32 {
	root := int32(0)
	if b.opt.Root != nil {
		var ok bool
		if root, ok = b.roots[e.Key.Thread]; !ok {
			root = b.special(0, b.opt.Root(e.Key.Thread), RootNode)
			b.roots[e.Key.Thread] = root
		}
	}
	if e.Key.Stack == 0 {
		return b.special(root, NoStack, NoStackNode)
	}
	if b.opt.Inverted {
		return b.inverted(root, e.Key.Stack)
	}
	// Go outward from the innermost frame. Stop at the first caller whose node is already known from another stack.
	b.way = b.way[:0]
	n, at := root, e.Key.Stack
	for at != 0 {
		if known, ok := b.memo[stackRoot{root, at}]; ok {
			n = known
			break
		}
		caller, frame := b.dict.Stack(at)
		b.way = append(b.way, trieStep{at, frame})
		at = caller
	}
	for i := len(b.way) - 1; i >= 0; i-- {
		n = b.step(n, b.way[i].frame)
		b.memo[stackRoot{root, b.way[i].stack}] = n
	}
	return n
}

func (b *Builder) inverted(root int32, stack sampler.StackID) int32 {
	at := stackRoot{root, stack}
	n, ok := b.memo[at]
	if !ok {
		n = root
		b.frames = b.dict.Frames(stack, b.frames[:0])
		for _, f := range b.frames {
			if !b.info(f).f.IsNative() {
				n = b.step(n, f)
			}
		}
		b.memo[at] = n
	}
	return n
}

// step returns the child of node n for the given frame. If the frame is hidden, or n is a CutNode, it returns n itself.
func (b *Builder) step(n int32, frame sampler.FrameID) int32 {
	in := b.info(frame)
	if in.hide || b.nodes[n].Kind == CutNode {
		return n
	}
	if b.nodes[n].Depth >= b.opt.MaxDepth {
		return b.special(n, cutLabel, CutNode)
	}
	key := &in.function
	if b.opt.ByLine {
		key = &in.line
	}
	if *key == 0 {
		*key = b.number(frameKey(&in.f, b.opt.ByLine))
	}
	ck := childKey{n, *key}
	c, ok := b.children[ck]
	if !ok {
		// If the tree already has MaxNodes nodes, a frame without a node goes to its parent's CutNode.
		if len(b.nodes) >= b.opt.MaxNodes {
			b.full = true
			return b.special(n, cutLabel, CutNode)
		}
		c = b.newNode(n, b.keys[*key], 256)
		x := b.nodes[c]
		x.Frame, x.Name, x.Path, x.ExecLine, x.C = frame, in.f.Name, in.f.Path, in.f.Line, in.f.C
		x.Own, x.Library, x.from, x.Native = in.own, in.library, in.from, in.f.IsNative()
		b.children[ck] = c
	}
	x := b.nodes[c]
	x.Uncertain = x.Uncertain || in.f.Uncertain
	x.severalLines = x.severalLines || in.f.Line != x.ExecLine
	return c
}

// special returns a child of parent that is not a frame. It makes the child if there is none yet.
func (b *Builder) special(parent int32, label string, kind NodeKind) int32 {
	k := FuncKey{Label: label, Kind: kind}
	ck := childKey{parent, b.number(k)}
	n, ok := b.children[ck]
	if !ok {
		n = b.newNode(parent, k, 256)
		b.children[ck] = n
	}
	return n
}

// frameKey returns the identity of a frame. The key of a C function has no path. For a C function, Ruby reports the
// path of the caller, so a key with a path would split one function into several nodes.
func frameKey(f *sampler.Frame, byLine bool) FuncKey {
	k := FuncKey{Label: f.Label}
	if f.C {
		return k
	}
	k.File, k.Line = f.File(), f.FirstLine
	if byLine {
		k.Line = f.Line
	}
	return k
}

// newNode makes a node. It allocates nodes in blocks. The parameter slab is the number of nodes in a new block.
func (b *Builder) newNode(parent int32, key FuncKey, slab int) int32 {
	if len(b.slab) == 0 {
		b.slab = make([]Node, slab)
	}
	n := &b.slab[0]
	b.slab = b.slab[1:]
	n.FuncKey = key
	if parent >= 0 {
		n.Parent = b.nodes[parent]
		n.Depth = n.Parent.Depth + 1
		b.kids[parent]++
	}
	b.nodes, b.kids = append(b.nodes, n), append(b.kids, 0)
	return int32(len(b.nodes) - 1)
}

func (b *Builder) info(id sampler.FrameID) *funcInfo {
	in := b.infos[id]
	if in == nil {
		in = new(funcInfo)
		b.infos[id] = in
	}
	if !in.known {
		in.f = b.dict.Frame(id)
		in.known = true
		if in.from, in.own = in.f.From(), in.f.Own(); !in.own {
			in.library = in.f.Library()
		}
		in.hide = b.opt.Hide != nil && b.opt.Hide(&in.f)
		in.keep = b.opt.Keep != nil && frameMatches(b.opt.Keep, in.f.Label, in.f.File())
	}
	return in
}

func frameMatches(re *regexp.Regexp, label, file string) bool {
	return re.MatchString(label) || re.MatchString(file)
}

// finish adds up totals from the innermost nodes outward, and links and sorts the children.
func (b *Builder) finish(t *Tree) {
	links := make([]*Node, len(b.nodes)-1)
	for i, n := range b.nodes {
		k := b.kids[i]
		n.Children, links = links[:0:k], links[k:]
	}
	for i := len(b.nodes) - 1; i >= 0; i-- { // a child always comes after its parent
		n := b.nodes[i]
		n.Total += n.Self
		for st, v := range n.StateSelf {
			n.StateTotal[st] += v
		}
		t.MaxDepth = max(t.MaxDepth, n.Depth)
		if n.Kind == CutNode {
			t.Cut += n.Total
		}
		if p := n.Parent; p != nil {
			p.Total += n.Total
			for st, v := range n.StateTotal {
				p.StateTotal[st] += v
			}
			p.Children = append(p.Children, n)
		}
		if len(n.Children) > 1 {
			slices.SortFunc(n.Children, func(x, y *Node) int { return compareKeys(x.FuncKey, y.FuncKey) })
		}
	}
	t.Root, t.Nodes = b.nodes[0], len(b.nodes)
}

// compareKeys compares the keys of two siblings. The children of a node are sorted in this order.
func compareKeys(x, y FuncKey) int {
	if (x.Kind == LeafNode) != (y.Kind == LeafNode) {
		return cmp.Compare(x.Kind, y.Kind)
	}
	if c := strings.Compare(x.Label, y.Label); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Kind, y.Kind))
}
