package flamegraph

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// ranIn returns the state in which a thread ran.
func ranIn(r *sampler.NativeRun) gvl.State {
	switch {
	case r.Holds && r.Collects:
		return gvl.GC
	case r.Holds:
		return gvl.Running
	}
	return gvl.Native
}

// runs emits the stacks of running threads of a sample, under keys of their own (Key.Ran).
func (c *Collector) runs(s *sampler.Sample) {
	for i := range s.Runs {
		r := &s.Runs[i]
		c.emit(r.AtNS, Key{Thread: r.Thread, Stack: r.Stack, State: ranIn(r), Ran: true}, Weights{Samples: 1})
	}
}

// Ran says in which C functions threads ran, by their Ruby stacks. It divides the time of a Ruby stack among the C
// functions in proportion to the stacks that were taken while the thread ran. A nil Ran divides nothing.
type Ran struct {
	places map[ranPlace][]ranPart
}

// ranPlace is a thread's Ruby stack in one state.
type ranPlace struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	state  gvl.State
}

// ranPart is a Ruby stack with C functions, or without any, and how often it was taken.
type ranPart struct {
	stack sampler.StackID
	n     int64
}

// NewRan returns the Ran of the entries with Key.Ran. It is nil if there are none.
func NewRan(dict *sampler.Dictionary, entries []Entry) *Ran {
	var r *Ran
	for i := range entries {
		e := &entries[i]
		if !e.Key.Ran || e.Key.Stack == 0 {
			continue
		}
		if r == nil {
			r = &Ran{places: make(map[ranPlace][]ranPart)}
		}
		ruby := e.Key.Stack
		for ruby != 0 {
			caller, frame := dict.Stack(ruby)
			if f := dict.Frame(frame); !f.IsNative() {
				break
			}
			ruby = caller
		}
		at := ranPlace{e.Key.Thread, ruby, e.Key.State}
		r.places[at] = append(r.places[at], ranPart{e.Key.Stack, e.Weights.Samples})
	}
	if r != nil {
		for _, list := range r.places {
			slices.SortFunc(list, func(a, b ranPart) int { return cmp.Compare(a.stack, b.stack) })
		}
	}
	return r
}

// Divide calls emit with the parts of an entry, whose sum is the entry. Objects stay with the Ruby stack, because they
// are not in proportion to time.
func (r *Ran) Divide(e Entry, emit func(Entry)) {
	if r == nil {
		emit(e)
		return
	}
	list := r.places[ranPlace{e.Key.Thread, e.Key.Stack, e.Key.State}]
	if len(list) == 0 || len(list) == 1 && list[0].stack == e.Key.Stack {
		emit(e)
		return
	}
	left, total := e, int64(0)
	for _, p := range list {
		total += p.n
	}
	for _, p := range list {
		if p.stack == e.Key.Stack {
			continue
		}
		part := Entry{Key: e.Key, Weights: e.Weights.timesOf(p.n, total)}
		if part.Key.Stack = p.stack; part.Weights != (Weights{}) {
			left.Weights = left.Weights.minus(part.Weights)
			emit(part)
		}
	}
	// If every stack has C functions, only what rounding has left over is the Ruby stack's own.
	if left.Weights != (Weights{}) {
		emit(left)
	}
}

// timesOf returns the part n of total of all times, rounded down. A time that is negative, because it went to another
// request, has no part.
func (w Weights) timesOf(n, total int64) Weights {
	part := func(a int64) int64 { return mulDiv(max(a, 0), n, total) }
	return Weights{WallNS: part(w.WallNS), CPUNS: part(w.CPUNS), WaitNS: part(w.WaitNS), BlameNS: part(w.BlameNS),
		Samples: part(w.Samples)}
}

// divide divides the entries of a Snapshot, and removes those of Key.Ran.
func (s *Snapshot) divide(dict *sampler.Dictionary) {
	if s.Ran = nil; !slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Key.Ran }) {
		return
	}
	if dict != nil {
		s.Ran = NewRan(dict, s.Entries)
	}
	out := make([]Entry, 0, len(s.Entries))
	for _, e := range s.Entries {
		if !e.Key.Ran {
			s.Ran.Divide(e, func(e Entry) { out = append(out, e) })
		}
	}
	s.Entries = out
}
