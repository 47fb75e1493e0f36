package flamegraph

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Under returns a test of whether the weight of a key is a part of a node's Total, as Tree.Under does.
func (f *Folded) Under(d *sampler.Dictionary, n *Node) func(Key) bool {
	of := f.of[n]
	if len(of) == 1 && n.Kind != LeafNode {
		return f.Whole.Under(d, of[0])
	}
	u := &underMerged{under: under{dict: d, opt: &f.Whole.Options, keeps: make(map[sampler.StackID]bool)}, root: f.Whole.Root, selfOnly: n.Kind == LeafNode,
		nodes: make(map[*Node]bool, len(of)), reached: make(map[rootStack]reached)}
	for _, x := range of {
		u.nodes[x] = x.Kind != CutNode
	}
	return u.has
}

// underMerged is what the test for a node that stands for several knows: it goes down the whole tree with each stack.
type underMerged struct {
	under
	root     *Node
	nodes    map[*Node]bool
	selfOnly bool
	reached  map[rootStack]reached
}

type rootStack struct {
	root  *Node
	stack sampler.StackID
}

// reached is where a stack leads: the node (nil: out of the tree), and whether one of the nodes was on the way.
type reached struct {
	n   *Node
	hit bool
}

func (u *underMerged) has(k Key) bool {
	if !u.wanted(k) {
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
		for _, frame := range u.dict.Frames(k.Stack, nil) {
			at = u.call(at, frame)
		}
	default:
		at = u.along(at, k.Stack)
	}
	if u.selfOnly {
		return u.nodes[at.n]
	}
	return at.hit
}

// along follows a stack from its outermost frame. Callers that another stack has come by need no second look.
func (u *underMerged) along(from reached, stack sampler.StackID) reached {
	var steps []trieStep // the stack's depth is the Dictionary's to bound
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

// call goes on by a frame.
func (u *underMerged) call(at reached, id sampler.FrameID) reached {
	if at.n == nil {
		return at
	}
	f := u.dict.Frame(id)
	if u.opt.Hide != nil && u.opt.Hide(&f) {
		return at
	}
	return u.step(at, at.n.Child(frameKey(&f, u.opt.ByLine)))
}

func (u *underMerged) step(at reached, n *Node) reached {
	return reached{n, at.hit || n != nil && u.nodes[n]}
}
