// Package heapgraph finds out why an object stays alive: which references lead to it from a root. It uses the
// references between all objects of a heap. The heap can come from a process's memory, a core file or a file that
// ObjectSpace.dump_all wrote.
package heapgraph

import "slices"

// Bounds of a graph.
const (
	// MaxNodes is the largest number of slots in a graph. A node's number has 32 bits. The limit leaves the highest
	// bits free, which are used for marks such as rootMark.
	MaxNodes = 1 << 28
	// MaxEdges limits how many references a graph can have. A heap has two or three times as many references as
	// objects.
	MaxEdges = 1 << 29
	// MaxLabels limits how many different names of constants and variables a graph keeps.
	MaxLabels = 1 << 20
)

// These types of objects need special treatment in a path from a root to an object. The names are as in
// ObjectSpace.count_objects.
const (
	TypeClass, TypeModule, TypeString, TypeArray, TypeHash = "T_CLASS", "T_MODULE", "T_STRING", "T_ARRAY", "T_HASH"
	TypeImemo, TypeIClass                                  = "T_IMEMO", "T_ICLASS"
)

// Node is an object of the heap. A slot without an object is a Node with the zero value.
type Node struct {
	Addr uint64
	// Size is the memory of the object in bytes: its slot, and the memory that it has outside the slot, if that was
	// counted.
	Size uint64
	// Class is the index in Graph.Names of the name of the object's class. If the object is itself a class or module,
	// it is the index of its own name. Type is the index of the type's name. Zero means that the slot has no object.
	Class, Type uint32
	// Content is the hash of a String's bytes. It is zero if they were not read.
	Content uint64
	// Length is the length of a String in bytes, or of an Array or Hash in elements.
	Length uint64
}

// Fact has what a heap dump file says about an object in addition to the fields of Node.
type Fact struct {
	// Class is the address of its class, which may be a singleton class. It is zero if the object has none.
	Class                 uint64
	SlotSize              uint32
	Old, Frozen, Embedded bool
}

// Root is a reference to an object from something that is not an object, such as a global variable.
type Root struct {
	// Name is the thing that refers to the object: "$cache", "thread puma 001", "VM".
	Name string
	Node uint32
}

// edge is a reference from one object to another. label is the index of the name of the constant or variable that holds
// the reference.
type edge struct{ from, to, label uint32 }

// Graph is the objects of a heap and their references. Add nodes, edges and roots, then call Finish once.
type Graph struct {
	Nodes []Node
	// Names has the names of classes and types, and Labels the names of constants and variables. Index 0 of each is the
	// empty name.
	Names, Labels []string
	// Facts has more facts about each node, by the node's number. It is empty unless the caller asks for facts.
	Facts []Fact
	// Values has the first MaxValue bytes of the Strings that Largest and Copies return first, by the Strings' nodes.
	// Values is empty unless the caller asks for values. It is for the screen, and must not be written into a file.
	Values map[uint32]string
	// Roots are in order of preference: if several paths to an object are equally short, the path from the earlier root
	// is shown.
	Roots []Root
	// Cut means that some references were left out because there are too many.
	Cut bool

	nameIndex, labelIndex map[string]uint32
	edges                 []edge
	first, to, labels     []uint32
	// the tree of paths: for each node, 1 + the number of the node before it, or rootMark + the number of a root
	parents, parentLabels []uint32
	order                 []uint32 // nodes that a root reaches, in the order of a depth-first walk
	retained              []uint64
	dominators            []uint32
}

// New returns an empty graph.
func New() *Graph {
	g := &Graph{nameIndex: make(map[string]uint32), labelIndex: make(map[string]uint32)}
	g.Name("")
	g.Label("")
	return g
}

// Name returns the index in Names of the name of a class or type. It adds a new name to Names.
func (g *Graph) Name(s string) uint32 { return index(s, &g.Names, g.nameIndex) }

// Label returns the index in Labels of the name of a constant or variable. It adds a new name, unless there are already
// MaxLabels names. In that case it returns zero.
func (g *Graph) Label(s string) uint32 {
	if len(g.Labels) >= MaxLabels {
		return g.labelIndex[s]
	}
	return index(s, &g.Labels, g.labelIndex)
}

func index(s string, list *[]string, known map[string]uint32) uint32 {
	i, ok := known[s]
	if !ok {
		i = uint32(len(*list))
		*list, known[s] = append(*list, s), i
	}
	return i
}

// Edge adds a reference.
func (g *Graph) Edge(from, to, label uint32) {
	if len(g.edges) >= MaxEdges {
		g.Cut = true
		return
	}
	g.edges = append(g.edges, edge{from, to, label})
}

// EdgeCount returns the number of references.
func (g *Graph) EdgeCount() int { return max(len(g.edges), len(g.to)) }

// Root adds a root.
func (g *Graph) Root(name string, node uint32) { g.Roots = append(g.Roots, Root{name, node}) }

// Type returns the name of a node's type.
func (g *Graph) Type(n uint32) string { return g.Names[g.Nodes[n].Type] }

// ClassName returns the name of a node's class.
func (g *Graph) ClassName(n uint32) string { return g.Names[g.Nodes[n].Class] }

// Finish sorts the references by the object from which they lead. After Finish, no nodes or references may be added.
func (g *Graph) Finish() {
	n := len(g.Nodes)
	g.first = make([]uint32, n+1)
	for _, e := range g.edges {
		g.first[e.from+1]++
	}
	for i := range n {
		g.first[i+1] += g.first[i]
	}
	next := slices.Clone(g.first[:n])
	g.to, g.labels = make([]uint32, len(g.edges)), make([]uint32, len(g.edges))
	for _, e := range g.edges {
		g.to[next[e.from]], g.labels[next[e.from]] = e.to, e.label
		next[e.from]++
	}
	g.edges = nil
}

// References returns the nodes to which a node refers, and the label of each reference.
func (g *Graph) References(n uint32) (to, labels []uint32) {
	a, b := g.first[n], g.first[n+1]
	return g.to[a:b], g.labels[a:b]
}
