package flamegraph

import (
	"cmp"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// maxNativeFrames limits the number of frames not written in Ruby that PlaceOf skips.
const maxNativeFrames = 64

// Place is a stack's place in the code. Method is its innermost method written in Ruby. Native is the function of
// Ruby's core that this method called (in C or, like Integer#times, in <internal:…>). The zero Place means that no
// stack was read.
type Place struct {
	Method, Native, Path string
}

// PlaceOf returns the place of a stack, and the executed line in the file Place.Path.
func PlaceOf(dict *sampler.Dictionary, stack sampler.StackID) (p Place, line int32) {
	for range maxNativeFrames {
		caller, id := dict.Stack(stack)
		if id == 0 {
			break
		}
		f := dict.Frame(id)
		if f.IsNative() {
			stack = caller
			continue
		}
		if !f.C && !strings.HasPrefix(f.Path, "<internal:") {
			p.Method, p.Path = f.Label, f.Path
			return p, f.Line
		}
		if p.Native == "" {
			p.Native = f.Label
		}
		stack = caller
	}
	return p, 0
}

// String returns the place as text: "Reports#build → JSON.generate".
func (p Place) String() string {
	switch {
	case p == Place{}:
		return "no stack was read"
	case p.Method == "":
		return p.Native
	case p.Native == "":
		return p.Method
	}
	return p.Method + " → " + p.Native
}

// PlaceSum is the time charged to a place.
type PlaceSum struct {
	Place
	NS int64
	// Line, State and Thread are the line, the state and the thread with the largest part of NS. Threads is the number
	// of threads.
	Line    int32
	State   gvl.State
	Thread  sampler.ThreadID
	Threads int
}

// Places adds up the weights of all entries by place. The function weight returns an entry's weight in ns. Names have
// the same form as in the result of Frame.Marked. The largest sum comes first.
func (s *Snapshot) Places(dict *sampler.Dictionary, weight func(*Entry) int64) []PlaceSum {
	type at struct {
		Place
		line int32
	}
	type sums struct {
		ns      int64
		states  [gvl.NumStates]int64
		threads map[sampler.ThreadID]int64
		lines   map[int32]int64
	}
	marked := dict.Marked()
	ofStack := make(map[sampler.StackID]at)
	of := make(map[Place]*sums)
	for i := range s.Entries {
		e := &s.Entries[i]
		ns := weight(e)
		if ns == 0 {
			continue
		}
		k, ok := ofStack[e.Key.Stack]
		if !ok {
			k.Place, _ = PlaceOf(marked, e.Key.Stack)
			_, k.line = PlaceOf(dict, e.Key.Stack)
			ofStack[e.Key.Stack] = k
		}
		p := of[k.Place]
		if p == nil {
			p = &sums{threads: make(map[sampler.ThreadID]int64), lines: make(map[int32]int64)}
			of[k.Place] = p
		}
		p.ns += ns
		p.states[e.Key.State] += ns
		p.threads[e.Key.Thread] += ns
		p.lines[k.line] += ns
	}
	out := make([]PlaceSum, 0, len(of))
	for k, p := range of {
		out = append(out, PlaceSum{k, p.ns, largest(p.lines), topState(&p.states), largest(p.threads), len(p.threads)})
	}
	sorting.By(out, func(x, y PlaceSum) int {
		return cmp.Or(cmp.Compare(y.NS, x.NS), cmp.Compare(x.Method, y.Method), cmp.Compare(x.Native, y.Native),
			cmp.Compare(x.Path, y.Path))
	})
	return out
}

// largest returns the key with the largest sum. Of equal sums, the smallest key wins.
func largest[K cmp.Ordered](sums map[K]int64) (best K) {
	most := int64(-1)
	for k, ns := range sums {
		if ns > most || ns == most && k < best {
			best, most = k, ns
		}
	}
	return best
}

// topState returns the state with the largest sum. Of equal sums, the first state wins.
func topState(sums *[gvl.NumStates]int64) gvl.State {
	best := gvl.State(0)
	for st := best + 1; st < gvl.NumStates; st++ {
		if sums[st] > sums[best] {
			best = st
		}
	}
	return best
}
