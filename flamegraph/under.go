package flamegraph

import "github.com/ddtop/ddtop/sampler"

// Under returns a test of whether the weight of a key is a part of a node's Total. n is a node of t, and d the Dictionary that
// its stacks are of. What a CutNode stands for can't be told any more: nothing is under it. The test keeps what it has found
// out of each stack, so it is for one tree and one goroutine.
func (t *Tree) Under(d *sampler.Dictionary, n *Node) func(Key) bool {
	u := &under{dict: d, opt: &t.Options, at: make(map[sampler.StackID]int), keeps: make(map[sampler.StackID]bool)}
	way := PathOf(n)
	if len(way) > 0 && way[len(way)-1].Kind == CutNode {
		return func(Key) bool { return false }
	}
	if t.Options.Root != nil && len(way) > 0 {
		u.root, way = &way[0], way[1:]
	}
	if len(way) > 0 && way[0].Kind == NoStackNode {
		u.noStack, way = true, nil
	}
	u.way = way
	return u.has
}

// under is what a test made by Under knows.
type under struct {
	dict    *sampler.Dictionary
	opt     *Options
	root    *FuncKey // nil: the tree has no roots but one
	noStack bool     // the node is the one without a stack
	way     Path     // from there to the node

	// at is how far on the way a stack leads from its outermost frame; wayOff: it leaves it.
	at    map[sampler.StackID]int
	keeps map[sampler.StackID]bool
}

// wayOff is a stack that leaves the way to the node.
const wayOff = -1

func (u *under) has(k Key) bool {
	o := u.opt
	switch {
	case !u.wanted(k), u.root != nil && u.root.Label != o.Root(k.Thread):
		return false
	case k.Stack == 0:
		return u.noStack || len(u.way) == 0
	case u.noStack:
		return false
	case o.Inverted:
		return u.inward(k.Stack)
	}
	return u.along(k.Stack) == len(u.way)
}

// wanted reports whether the weight of a key is in the tree.
func (u *under) wanted(k Key) bool {
	o := u.opt
	return (o.States == 0 || o.States.Has(k.State)) && (o.Threads == nil || o.Threads[k.Thread]) &&
		(o.Endpoint == 0 || o.Endpoint == k.Endpoint) && (o.Keep == nil || u.keep(k.Stack))
}

// along follows a stack from its outermost frame. Callers that another stack has come by need no second look, and past the
// node or beside the way no frame does.
func (u *under) along(stack sampler.StackID) int {
	var steps []trieStep // the stack's depth is the Dictionary's to bound
	at := 0
	for stack != 0 {
		known, ok := u.at[stack]
		if ok {
			at = known
			break
		}
		caller, frame := u.dict.Stack(stack)
		steps = append(steps, trieStep{stack, frame})
		stack = caller
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if at != wayOff && at < len(u.way) {
			at = u.step(at, steps[i].frame)
		}
		u.at[steps[i].stack] = at
	}
	return at
}

// inward follows a stack from its innermost frame, as an inverted tree does.
func (u *under) inward(stack sampler.StackID) bool {
	at := 0
	for at != wayOff && at < len(u.way) {
		caller, frame := u.dict.Stack(stack)
		if frame == 0 {
			return false
		}
		at, stack = u.step(at, frame), caller
	}
	return at == len(u.way)
}

// step is how far on the way one more frame leads.
func (u *under) step(at int, id sampler.FrameID) int {
	f := u.dict.Frame(id)
	switch {
	case u.opt.Hide != nil && u.opt.Hide(&f):
		return at
	case frameKey(&f, u.opt.ByLine) == u.way[at]:
		return at + 1
	}
	return wayOff
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
