// Package doorways finds the methods of stacks in which threads may wait for each other, or which they are inside of.
package doorways

import (
	"strings"

	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/sampler"
)

// ID is the number of a method.
type ID uint32

type key struct{ label, path string }

// Doors are the methods of a stack in which it may wait, and those it is inside of.
type Doors struct {
	// Near are methods that no code further in calls back, the innermost first.
	Near []ID
	// Through are methods that have called back a method further out.
	Through []ID
}

const (
	// maxNear limits how many methods around a wait can be its gate. An example is checkout, called by with, called by
	// a helper of the program.
	maxNear = 6
	// maxThrough limits how many methods a stack can be inside. Helpers that take blocks are among them.
	maxThrough = 48
)

// Stacks remembers the methods of stacks.
type Stacks struct {
	dict   *sampler.Dictionary
	ids    map[key]ID
	stacks map[sampler.StackID]Doors
}

// New returns Stacks whose IDs are in a dictionary. It may be nil.
func New(dict *sampler.Dictionary) *Stacks {
	return &Stacks{dict: dict, ids: make(map[key]ID), stacks: make(map[sampler.StackID]Doors)}
}

// Known reports whether there is a dictionary.
func (g *Stacks) Known() bool { return g.dict != nil }

// Is reports whether a frame is code of a method with that number.
func (g *Stacks) Is(f *sampler.Frame, id ID) bool {
	return !f.C && g.ids[key{code.Method(f.Label), f.Path}] == id
}

// Len returns the number of stacks or of methods that are remembered, the larger one.
func (g *Stacks) Len() int { return max(len(g.stacks), len(g.ids)) }

// Forget drops all stacks and methods, and reports that it has, if there are as many as limit of one of them. Methods
// get new numbers then.
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

// Of returns the methods of a stack.
func (g *Stacks) Of(stack sampler.StackID) Doors {
	if s, ok := g.stacks[stack]; ok {
		return s
	}
	// Each method of the stack with its place, and from where on outwards it is covered: called back from further in.
	type place struct {
		id    ID
		block bool
	}
	var frames []place
	innermost := make(map[ID]int)
	covered := [code.MaxFrames + 1]int{} // +1 where a covered stretch begins, -1 behind its end
	covers := make(map[ID]bool)          // nested blocks of one method are no call of another method
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
