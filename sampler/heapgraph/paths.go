package heapgraph

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// rootMark marks the numbers of roots in Graph.parents. It is added to a root's number, but not to a node's.
	rootMark = 1 << 31
	// maxSteps limits how many steps of a path are shown. If a path is longer, its middle is left out.
	maxSteps = 24
	// maxRepeat is the length of the longest cycle that a path shows only once, in steps. For example, a linked list of
	// any length is shown as Node → Node.
	maxRepeat = 3
)

// plan makes a tree of shortest paths from the roots to all objects. It prefers references that programmers see in
// their code. It uses a reference to one of Ruby's internal objects, or from an object to its class, only if the object
// has no other path.
func (g *Graph) plan() {
	if g.parents != nil {
		return
	}
	g.parents, g.parentLabels = make([]uint32, len(g.Nodes)), make([]uint32, len(g.Nodes))
	internal, class := make([]bool, len(g.Names)), make([]bool, len(g.Names))
	for i, name := range g.Names {
		internal[i], class[i] = name == TypeImemo || name == TypeIClass, name == TypeClass || name == TypeModule
	}
	var queue []uint32
	visit := func(n, parent, label uint32) {
		if g.parents[n] == 0 && g.Nodes[n].Type != 0 {
			g.parents[n], g.parentLabels[n] = parent, label
			queue = append(queue, n)
		}
	}
	for i, r := range g.Roots {
		if !internal[g.Nodes[r.Node].Type] {
			visit(r.Node, rootMark+uint32(i), 0)
		}
	}
	walk := func(known func(from, to uint32) bool) {
		for i := 0; i < len(queue); i++ {
			from := queue[i]
			to, labels := g.References(from)
			for k, n := range to {
				if known(g.Nodes[from].Type, g.Nodes[n].Type) {
					visit(n, from+1, labels[k])
				}
			}
		}
	}
	walk(func(from, to uint32) bool { return !internal[to] && (!class[to] || class[from]) })
	for i, r := range g.Roots {
		visit(r.Node, rootMark+uint32(i), 0)
	}
	walk(func(_, _ uint32) bool { return true })
}

// Step is an object on a path.
type Step struct {
	// Label is the name of the constant or variable that refers to the object. Class is the name of the object's class.
	// Both can be empty.
	Label, Class string
	// Repeated means that the path has several such steps one after the other, and shows only one of them.
	Repeated bool
	// Node is the object to which the step leads. If the step is repeated, Node is one of the objects.
	Node uint32
}

// Path is a path of references from a root to some objects.
type Path struct {
	// Root is where the path begins, such as "$cache", or a class with its variable: "Store::CACHE".
	Root  string
	Steps []Step
	// Cut means that steps in the middle are left out.
	Cut bool
	// Objects is how many objects the path leads to, and Size is their size in bytes. Retained is how many bytes these
	// objects keep alive.
	Objects        int
	Size, Retained uint64
	// Holder is the first object of the path. HolderRetained is how much memory would become free without this object,
	// in bytes.
	Holder         uint32
	HolderRetained uint64
}

// String returns the path as one line.
func (p *Path) String() string {
	var b strings.Builder
	b.WriteString(p.Root)
	for i, s := range p.Steps {
		switch {
		case i == 0 && p.Root != "":
			b.WriteString(" (" + s.Class + ")")
			if s.Repeated {
				b.WriteString(" …")
			}
			continue
		case i > 0:
			b.WriteString(" → ")
		}
		if p.Cut && i == len(p.Steps)/2 {
			b.WriteString("… → ")
		}
		if s.Label != "" {
			b.WriteString(s.Label + " (" + s.Class + ")")
		} else {
			b.WriteString(s.Class)
		}
		if s.Repeated {
			b.WriteString(" …")
		}
	}
	return b.String()
}

// pathKey identifies a path in a pathTree by two things: its last step, and the number of the path before this step.
type pathKey struct {
	parent int32
	label  string
	class  uint32
	typ    uint32 // distinguishes a class from its objects, which have the same class name
}

// pathTree stores the different paths to some objects as a tree. Paths that begin with the same steps share these
// steps.
type pathTree struct {
	g     *Graph
	of    []int32 // for each node: 1 + the index of its path in keys, or zero
	up    []uint32
	keys  []pathKey
	known map[pathKey]int32
	nodes []uint32 // a node for each path
	loops []bool
}

func (g *Graph) tree() *pathTree {
	return &pathTree{g: g, of: make([]int32, len(g.Nodes)), known: make(map[pathKey]int32)}
}

// path returns the number of the path to a node. It also stores the paths of all nodes between the root and this node.
func (t *pathTree) path(n uint32) int32 {
	g := t.g
	t.up = t.up[:0]
	for at := n; t.of[at] == 0; {
		t.up = append(t.up, at)
		p := g.parents[at]
		if p >= rootMark {
			break
		}
		at = p - 1
	}
	for _, at := range slices.Backward(t.up) {
		t.of[at] = 1 + t.step(at)
	}
	return t.of[n] - 1
}

// step returns the path that adds the node n to the path of its parent.
func (t *pathTree) step(n uint32) int32 {
	g := t.g
	key := pathKey{parent: -1, label: g.Labels[g.parentLabels[n]], class: g.Nodes[n].Class, typ: g.Nodes[n].Type}
	p := g.parents[n]
	if p >= rootMark {
		key.label = g.Roots[p-rootMark].Name
	} else {
		key.parent = t.of[p-1] - 1
		above := key.parent
		if g.Type(p-1) == TypeImemo && key.label == "" { // the holder of a class's variables has no label
			key.label = t.keys[above].label
		}
		if loop, ok := t.loop(key); ok {
			t.loops[loop] = true
			return loop
		}
	}
	id, ok := t.known[key]
	if !ok {
		id = int32(len(t.keys))
		t.known[key], t.keys, t.nodes, t.loops = id, append(t.keys, key), append(t.nodes, n), append(t.loops, false)
	}
	return id
}

// loop reports whether the path that ends with key repeats its last steps, like a linked list. If it does, loop also
// returns the earlier path that ends with the same step. In a cycle of one step, such as in a tree whose objects have
// one class, the names of the variables may differ.
func (t *pathTree) loop(key pathKey) (int32, bool) {
	var last [2 * maxRepeat]pathKey
	last[0] = key
	n, at := 1, key.parent
	for ; n < len(last) && at >= 0; n++ {
		last[n] = t.keys[at]
		at = t.keys[at].parent
	}
	for length := 1; 2*length <= n; length++ {
		same := true
		for i := range length {
			a, b := last[i], last[i+length]
			same = same && a.class == b.class && a.typ == b.typ && (a.label == b.label || length == 1)
		}
		if !same {
			continue
		}
		loop := key.parent
		for range length - 1 {
			loop = t.keys[loop].parent
		}
		return loop, true
	}
	return 0, false
}

// show returns the stored path with the given number as a Path. If the path begins with classes and Ruby's internal
// objects, these become the Path's Root.
func (t *pathTree) show(id int32) Path {
	g := t.g
	var steps []Step
	for at := id; at >= 0; at = t.keys[at].parent {
		k := t.keys[at]
		steps = append(steps, Step{Label: k.label, Class: g.Names[k.class], Repeated: t.loops[at], Node: t.nodes[at]})
	}
	slices.Reverse(steps)
	var p Path
	begin := 0
	p.Root, steps[0].Label = steps[0].Label, ""
	for i, s := range steps[:len(steps)-1] {
		n := s.Node
		typ := g.Type(n)
		if typ != TypeClass && typ != TypeModule && typ != TypeImemo && typ != TypeIClass {
			break
		}
		begin = i + 1
		if typ == TypeClass || typ == TypeModule {
			p.Root = g.ClassName(n) // the name of the class itself (Node.Class)
		}
	}
	if begin > 0 {
		label := steps[begin].Label
		steps[begin].Label = ""
		switch {
		case label == "":
			p.Root += " (code)"
		case label[0] == '@':
			p.Root += "." + label
		case p.Root == "Object":
			p.Root = label
		default:
			p.Root += "::" + label
		}
	}
	steps = steps[begin:]
	steps = slices.DeleteFunc(steps, func(s Step) bool {
		typ := g.Type(s.Node)
		return (typ == TypeImemo || typ == TypeIClass) && s.Node != t.nodes[id]
	})
	p.Holder = steps[0].Node
	if len(steps) > maxSteps {
		p.Cut = true
		steps = append(steps[:maxSteps/2:maxSteps/2], steps[len(steps)-maxSteps/2:]...)
	}
	p.Steps = steps
	return p
}

// Holders has the paths of references that lead to the objects of a set, and so keep them alive.
type Holders struct {
	Objects        int
	Size, Retained uint64
	// Unreached is the number of objects without a path. Such an object is garbage, or ddtop has not read the memory
	// that refers to it.
	Unreached     int
	UnreachedSize uint64
	// Paths are sorted by the number of objects to which they lead, the largest number first. More is how many paths
	// are left out.
	Paths []Path
	More  int
}

// HoldersOf returns the paths of references that keep the objects of a set alive, at most limit paths.
func (g *Graph) HoldersOf(set []uint32, limit int) Holders {
	g.plan()
	g.dominate()
	var h Holders
	inner := g.within(set)
	t := g.tree()
	groups := make(map[int32]*Path)
	for _, n := range set {
		size := g.Nodes[n].Size
		h.Objects++
		h.Size += size
		if g.parents[n] == 0 || g.dominators[n] == none {
			h.Unreached++
			h.UnreachedSize += size
			continue
		}
		id := t.path(n)
		p := groups[id]
		if p == nil {
			p = new(Path)
			groups[id] = p
		}
		p.Objects++
		p.Size += size
		if !inner[n] {
			p.Retained += g.retained[n]
			h.Retained += g.retained[n]
		}
	}
	ids := make([]int32, 0, len(groups))
	for id := range groups {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Or(groups[b].Objects-groups[a].Objects, int(a-b)) })
	h.More = max(0, len(ids)-limit)
	for _, id := range ids[:len(ids)-h.More] {
		p := t.show(id)
		sum := groups[id]
		p.Objects, p.Size, p.Retained = sum.Objects, sum.Size, sum.Retained
		p.HolderRetained = g.retained[p.Holder]
		h.Paths = append(h.Paths, p)
	}
	return h
}

// within returns, for each node, whether some object of the set retains it. An object retains a node if no root reaches
// the node without this object. Then the object dominates the node.
func (g *Graph) within(set []uint32) []bool {
	in, inner := make([]bool, len(g.Nodes)), make([]bool, len(g.Nodes))
	for _, n := range set {
		in[n] = true
	}
	for _, n := range g.order { // in g.order, a node's dominators come before the node
		if d := g.dominators[n]; d != 0 {
			inner[n] = in[d-1] || inner[d-1]
		}
	}
	return inner
}

// OfClass returns the instances of the class with this name. It leaves out the class object itself.
func (g *Graph) OfClass(name string) (set []uint32) {
	class, ok := g.nameIndex[name]
	if !ok {
		return nil
	}
	for i := range g.Nodes {
		if t := g.Nodes[i].Type; g.Nodes[i].Class == class && t != 0 && g.Names[t] != TypeClass && g.Names[t] != TypeModule {
			set = append(set, uint32(i))
		}
	}
	return set
}

// At returns the object at an address.
func (g *Graph) At(addr uint64) (n uint32, ok bool) {
	for i := range g.Nodes {
		if g.Nodes[i].Addr == addr && g.Nodes[i].Type != 0 {
			return uint32(i), true
		}
	}
	return 0, false
}
