package flamegraph

import (
	"regexp"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// defaultMaxDepth is the depth beyond which a Tree cuts stacks if Options.MaxDepth is 0.
	defaultMaxDepth = 1024
	// defaultMaxNodes is the limit of nodes if Options.MaxNodes is 0. If a Tree has this many nodes, only CutNodes are
	// added.
	defaultMaxNodes = 200_000
)

// FuncKey identifies a node among its siblings. When the tree is built again, or ddtop restarts, the node of the same
// function has the same FuncKey.
type FuncKey struct {
	// Label is the frame's qualified label, or the text of a root or cut node.
	Label string
	// File is the absolute path of the file, or Ruby's own path if the absolute one is not known. It is empty for C
	// functions, because Ruby gives them the path of their caller.
	File string
	// Line is the executed line if the tree merges by line. Otherwise it is the first line of the method. It is zero
	// for C functions.
	Line int32
	Kind NodeKind
}

// NodeKind is the kind of a Node.
type NodeKind uint8

const (
	// FrameNode is a function. If the tree merges by line, it is one executed line of a function.
	FrameNode NodeKind = iota
	// RootNode is the root of the Tree. If Options.Root is set, the node of a thread, a group or a ractor is also a
	// RootNode.
	RootNode
	// CutNode represents frames left out by MaxDepth or MaxNodes.
	CutNode
	// NoStackNode represents time without a stack.
	NoStackNode
	// RunNode represents a run of frames that are not the program's own (see Fold). Its key is its outermost frame's
	// key, except for the Kind.
	RunNode
	// LeafNode represents the time that one function within a run spent in its own code, wherever in the run it is
	// called. A run is a row of folded frames. Below the LeafNode are the C functions of native stacks that the
	// function called.
	LeafNode
)

// Node is a function (or a line of it) in its calling context. Total is Self plus the Totals of the children.
type Node struct {
	FuncKey
	// Frame is one of the frames that are merged into this node. It is zero for nodes that are not frames.
	Frame sampler.FrameID
	// Name is the base label of Frame: the method's name without its class. Path is the file of Frame as Ruby names it.
	// ExecLine is the line that Frame executes.
	Name, Path string
	ExecLine   int32
	// severalLines is true if the node's merged frames have different executed lines.
	severalLines bool
	C            bool
	// Own is true if the node is the program's own code. Otherwise Library names its library (sampler.Frame.Library).
	Own     bool
	Library string
	from    sampler.Origin
	run     *run // nil unless the node is a RunNode
	// Native is true for a C function that was found on the stack of C code (sampler.Frame.Native).
	Native bool
	// Uncertain is true if at least one of the merged frames cannot be trusted.
	Uncertain   bool
	Self, Total int64
	// StateTotal and StateSelf split Total and Self by state.
	StateTotal, StateSelf [gvl.NumStates]int64
	Depth                 int
	Parent                *Node
	// Children are sorted by Label, File, Line, Kind, with LeafNodes last. The order does not depend on weights, so
	// that the rows of a live picture do not move when weights change.
	Children []*Node
}

// Joined joins several trees to one, with the children of all roots under one root. Their options may differ only in
// Root. It uses the nodes of the trees, so callers must not use these trees afterwards.
func Joined(list []*Tree) *Tree {
	t := list[0]
	for _, x := range list[1:] {
		t.FromNS, t.ToNS = min(t.FromNS, x.FromNS), max(t.ToNS, x.ToNS)
		t.Nodes, t.MaxDepth = t.Nodes+x.Nodes-1, max(t.MaxDepth, x.MaxDepth)
		t.Samples, t.Cut, t.Excluded = t.Samples+x.Samples, t.Cut+x.Cut, t.Excluded+x.Excluded
		t.Root.Self, t.Root.Total = t.Root.Self+x.Root.Self, t.Root.Total+x.Root.Total
		for s := range x.Root.StateTotal {
			t.Root.StateTotal[s] += x.Root.StateTotal[s]
			t.Root.StateSelf[s] += x.Root.StateSelf[s]
		}
		for _, n := range x.Root.Children {
			n.Parent = t.Root
			t.Root.Children = append(t.Root.Children, n)
		}
	}
	return t
}

// IsFrame reports whether a node is a single function, and not a thread or several functions.
func (n *Node) IsFrame() bool { return n.Kind == FrameNode || n.Kind == LeafNode }

// TopState returns the state with the largest share of the node's total. Of equal shares, the first state wins.
func (n *Node) TopState() gvl.State { return topState(&n.StateTotal) }

// Options select and shape the contents of a Tree. The zero value selects everything: wall time, merged by function.
type Options struct {
	Metric Metric
	// Threads are the threads to include. If it is nil, all threads are included.
	Threads map[sampler.ThreadID]bool
	// Endpoint is the route or the class of jobs to include. Zero includes everything, even the time in which threads
	// served no request.
	Endpoint EndpointID
	// States are the states to include. If it is zero, all states are included.
	States StateSet
	// Keep, if set, is a regular expression. A stack is left out unless the expression matches the label or file of one
	// of its frames.
	Keep *regexp.Regexp
	// ByLine makes a separate node for each executed line of a method.
	ByLine bool
	// Root returns the label of the node that is the parent of a thread's stacks, such as the thread's name, its group
	// or its ractor. Root may be nil.
	Root func(sampler.ThreadID) string
	// Inverted puts callees first. The root's children are the innermost frames, and each frame's children are its
	// callers. C functions of native stacks (stacks of C code) are left out, so that the time of a Ruby frame is in one
	// place.
	Inverted bool
	// Hide, if set, leaves frames out. Their own weight goes to the nearest shown frame outward.
	Hide func(*sampler.Frame) bool
	// MaxDepth and MaxNodes bound the tree. If they are zero, the defaults apply. CutNodes represent the parts left
	// out.
	MaxDepth, MaxNodes int
}

// wants reports whether a key passes the filters by state, thread and endpoint. It ignores Keep, which filters stacks.
func (o *Options) wants(k *Key) bool {
	return (o.States == 0 || o.States.Has(k.State)) && (o.Threads == nil || o.Threads[k.Thread]) && (o.Endpoint == 0 || o.Endpoint == k.Endpoint)
}

// Tree is a flamegraph. It does not change after it was built, so any number of goroutines may read it.
type Tree struct {
	Root    *Node
	Metric  Metric
	Options Options
	// FromNS and ToNS are the beginning and end of the time that the tree covers, CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
	// Nodes is the number of nodes, including the root. MaxDepth is the largest Node.Depth.
	Nodes, MaxDepth int
	// Samples is the number of samples with stacks that the tree includes, after the filters.
	Samples int64
	// Cut is the weight of all CutNodes. It is zero if nothing was cut.
	Cut int64
	// Excluded is the weight that the filters left out, in the tree's metric.
	Excluded int64
	// Allocations is the estimate behind the metric Allocations, which shows how exact the metric is. It is the zero
	// value for other metrics.
	Allocations AllocEstimate
}
