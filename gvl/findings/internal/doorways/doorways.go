// Package doorways finds two kinds of methods on a thread's stack. In a method of the first kind, the thread may wait
// for other threads. A method of the second kind runs a block that was passed to it, as in pool.with { … }. While the
// block runs, the thread is inside the method.
package doorways

import (
	"strings"

	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/sampler"
)

// ID is the number of a method, which its label and file identify. Each Stacks has its own numbers.
type ID uint32

type key struct{ label, path string }

// Doors has two lists of the methods on a stack: methods in which the thread may wait, and methods that the thread is
// inside.
type Doors struct {
	// Near has methods, innermost first, that are not running a block passed to them. For example, Pool#with first
	// calls Pool#checkout, and later the block in "pool.with { … }". While a thread waits in Pool#checkout, both
	// methods are in Near.
	Near []ID
	// Through has methods that are running a block of a method further out. For example, Pool#with is in Through while
	// the block in "pool.with { … }" runs.
	Through []ID
}

const (
	// maxNear limits the methods in Near. One method is not enough, because the threads that this thread waits for may
	// not be inside the innermost method. For example, a thread in Pool#checkout may wait for threads inside its
	// caller, Pool#with. Or it may wait for threads inside a helper of the program that calls Pool#with.
	maxNear = 6
	// maxThrough limits the methods in Through. There can be many, because every helper that calls a block is in
	// Through.
	maxThrough = 48
)

// Stacks computes the Doors of stacks, and remembers them.
type Stacks struct {
	dict   *sampler.Dictionary
	ids    map[key]ID
	stacks map[sampler.StackID]Doors
}

// New returns a Stacks for stacks of the given Dictionary, which may be nil.
func New(dict *sampler.Dictionary) *Stacks {
	return &Stacks{dict: dict, ids: make(map[key]ID), stacks: make(map[sampler.StackID]Doors)}
}

// Known reports whether there is a dictionary.
func (g *Stacks) Known() bool { return g.dict != nil }

// Is reports whether a frame belongs to the method with this ID.
func (g *Stacks) Is(f *sampler.Frame, id ID) bool {
	return !f.C && g.ids[key{code.Method(f.Label), f.Path}] == id
}

// Len returns how much is remembered: the number of stacks or of methods, whichever is larger.
func (g *Stacks) Len() int { return max(len(g.stacks), len(g.ids)) }

// Forget drops all stacks and methods if Len has reached limit, and reports whether it did. Methods then get new IDs.
func (g *Stacks) Forget(limit int) bool {
	if g.Len() < limit {
		return false
	}
	clear(g.stacks)
	clear(g.ids)
	return true
}

func (g *Stacks) intern(k key) ID {
	id, ok := g.ids[k]
	if !ok {
		id = ID(len(g.ids) + 1)
		g.ids[k] = id
	}
	return id
}

// Of returns the Doors of a stack.
func (g *Stacks) Of(stack sampler.StackID) Doors {
	if s, ok := g.stacks[stack]; ok {
		return s
	}
	// place is a frame of the stack: id is its method, and block is set if the frame is a block of this method. A frame
	// is covered if it lies between a method and a block that is written in this method and runs further in.
	type place struct {
		id    ID
		block bool
	}
	var frames []place
	innermost := make(map[ID]int)
	covered := [code.MaxFrames + 1]int{} // +1 where covered frames begin, -1 behind their end
	covers := make(map[ID]bool)          // by method: set if another method is between two of its frames
	for _, f := range code.Frames(g.dict, stack, code.MaxFrames) {
		if f.C || f.Label == "" || strings.HasPrefix(f.Path, "<internal:") {
			continue
		}
		label := code.Method(f.Label)
		p := place{g.intern(key{label, f.Path}), label != f.Label}
		n := len(frames)
		if j, ok := innermost[p.id]; ok {
			covered[j+1]++
			covered[n]--
			covers[p.id] = covers[p.id] || n > j+1
		} else if p.block {
			innermost[p.id] = n
		}
		frames = append(frames, p)
	}
	var s Doors
	depth := 0
	for i, p := range frames {
		depth += covered[i]
		switch {
		case depth == 0 && len(s.Near) < maxNear:
			s.Near = append(s.Near, p.id)
		case depth > 0 && !covers[p.id] && len(s.Through) < maxThrough:
			s.Through = append(s.Through, p.id)
		}
	}
	g.stacks[stack] = s
	return s
}
