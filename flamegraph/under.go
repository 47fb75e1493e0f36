package flamegraph

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Under returns a function that reports whether the weight of a key is a part of a node's Total. n is a node of t, or a
// node of another tree that has the same path. d is the Dictionary of the stacks. The contents of a CutNode are
// unknown, so for a CutNode the function returns false. The function caches results. Use it for this tree only, and in
// one goroutine.
func (t *Tree) Under(d *sampler.Dictionary, n *Node) func(Key) bool {
	if own, found := t.Find(PathOf(n)); found {
		return t.underAny(d, []*Node{own}, false)
	}
	return t.underAny(d, nil, false)
}

// Under returns a function that reports whether the weight of a key is a part of a node's Total, as Tree.Under does.
func (f *Folded) Under(d *sampler.Dictionary, n *Node) func(Key) bool {
	return f.Whole.underAny(d, f.of[n], n.Kind == LeafNode)
}

// underAny is like Under for several nodes. If selfOnly is true, it tests whether the weight is a part of the Self of
// one of these nodes.
func (t *Tree) underAny(d *sampler.Dictionary, nodes []*Node, selfOnly bool) func(Key) bool {
	u := &under{dict: d, opt: &t.Options, keeps: make(map[sampler.StackID]bool), root: t.Root, selfOnly: selfOnly,
		nodes: make(map[*Node]bool, len(nodes)), reached: make(map[rootStack]reached)}
	for _, n := range nodes {
		u.nodes[n] = n.Kind != CutNode
	}
	return u.has
}

// under is the state of a test made by Under. The test follows each stack down the tree.
type under struct {
	dict     *sampler.Dictionary
	opt      *Options
	root     *Node
	nodes    map[*Node]bool
	selfOnly bool
	reached  map[rootStack]reached
	keeps    map[sampler.StackID]bool
	frames   []sampler.FrameID
}

type rootStack struct {
	root  *Node
	stack sampler.StackID
}

// reached is the node of the tree to which a stack leads. It is nil if the tree has no such stack. hit is true if the
// path to this node contains one of the nodes that Under was called with.
type reached struct {
	n   *Node
	hit bool
}

func (u *under) has(k Key) bool {
	if !u.opt.wants(&k) || u.opt.Keep != nil && !u.keep(k.Stack) {
		return false
	}
	at := u.step(reached{}, u.root)
	if u.opt.Root != nil {
		at = u.step(at, u.root.Child(FuncKey{Label: u.opt.Root(k.Thread), Kind: RootNode}))
	}
	switch {
	case k.Stack == 0:
		if at.n != nil {
			at = u.step(at, at.n.Child(FuncKey{Label: NoStack, Kind: NoStackNode}))
		}
	case u.opt.Inverted:
		u.frames = u.dict.Frames(k.Stack, u.frames[:0])
		for _, frame := range u.frames {
			if f := u.dict.Frame(frame); !f.IsNative() {
				at = u.call(at, frame)
			}
		}
	default:
		at = u.along(at, k.Stack)
	}
	if u.selfOnly {
		n := at.n
		for n != nil && n.Native {
			n = n.Parent
		}
		return u.nodes[n]
	}
	return at.hit
}

// along follows a stack through the tree, from its outermost frame inward. It reuses the results for stacks with the
// same callers.
func (u *under) along(from reached, stack sampler.StackID) reached {
	var steps []trieStep // the Dictionary bounds the depth of stacks
	at := from
	for stack != 0 {
		if known, ok := u.reached[rootStack{from.n, stack}]; ok {
			at = known
			break
		}
		caller, frame := u.dict.Stack(stack)
		steps = append(steps, trieStep{stack, frame})
		stack = caller
	}
	for _, s := range slices.Backward(steps) {
		at = u.call(at, s.frame)
		u.reached[rootStack{from.n, s.stack}] = at
	}
	return at
}

// call goes one frame further down the tree. If selfOnly is false and the node is already one of the wanted nodes or
// below such a node, call stops. All frames below a wanted node are a part of its Total, so the rest of the stack does
// not matter.
func (u *under) call(at reached, id sampler.FrameID) reached {
	if at.n == nil || at.hit && !u.selfOnly {
		return at
	}
	f := u.dict.Frame(id)
	if u.opt.Hide != nil && u.opt.Hide(&f) {
		return at
	}
	return u.step(at, at.n.Child(frameKey(&f, u.opt.ByLine)))
}

func (u *under) step(at reached, n *Node) reached {
	return reached{n, at.hit || n != nil && u.nodes[n]}
}

// keep reports whether a stack holds a frame that Options.Keep matches.
func (u *under) keep(stack sampler.StackID) bool {
	if stack == 0 {
		return false
	}
	keep, ok := u.keeps[stack]
	if !ok {
		caller, id := u.dict.Stack(stack)
		f := u.dict.Frame(id)
		keep = frameMatches(u.opt.Keep, f.Label, f.File()) || u.keep(caller)
		u.keeps[stack] = keep
	}
	return keep
}
