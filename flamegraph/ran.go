package flamegraph

import (
	"cmp"
	"encoding/binary"
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
// functions, in proportion to the stacks that were taken. If none was taken in a Ruby stack, the stacks of its
// innermost method count, of any thread and caller. A nil Ran divides nothing.
type Ran struct {
	dict *sampler.Dictionary
	// places have whole stacks, and methods have only the C functions.
	places  map[ranPlace][]ranPart
	methods map[ranMethod]*ranPool
}

// ranPlace is a thread's Ruby stack in one state.
type ranPlace struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	state  gvl.State
}

// ranMethod is the innermost Ruby frame of stacks, in one state.
type ranMethod struct {
	FuncKey
	state gvl.State
}

// ranPart is a stack, or the C functions of some stacks, and how often it was taken.
type ranPart struct {
	// stack is a Ruby stack with C functions, or without any. If it is 0, below are the C functions, innermost first.
	stack sampler.StackID
	below []sampler.FrameID
	n     int64
}

// ranPool are the parts of a method, by their C functions. total counts also the stacks without any.
type ranPool struct {
	parts map[string]*ranPart
	list  []ranPart
	total int64
}

// maxRanParts bounds the C functions among which the time of a stack is divided by its method. The rest stays with the
// Ruby frame.
const maxRanParts = 16

// NewRan returns the Ran of the entries with Key.Ran. It is nil if there are none.
func NewRan(dict *sampler.Dictionary, entries []Entry) *Ran {
	var r *Ran
	for i := range entries {
		e := &entries[i]
		if !e.Key.Ran || e.Key.Stack == 0 {
			continue
		}
		if r == nil {
			r = &Ran{dict: dict, places: make(map[ranPlace][]ranPart), methods: make(map[ranMethod]*ranPool)}
		}
		r.add(&e.Key, e.Weights.Samples)
	}
	if r == nil {
		return nil
	}
	for _, list := range r.places {
		slices.SortFunc(list, func(a, b ranPart) int { return cmp.Compare(a.stack, b.stack) })
	}
	for _, pool := range r.methods {
		for _, p := range pool.parts {
			pool.list = append(pool.list, *p)
		}
		slices.SortFunc(pool.list, func(a, b ranPart) int { return cmp.Or(cmp.Compare(b.n, a.n), slices.Compare(a.below, b.below)) })
		pool.list = pool.list[:min(len(pool.list), maxRanParts)]
	}
	return r
}

// add adds a stack that was taken n times.
func (r *Ran) add(k *Key, n int64) {
	ruby, below := k.Stack, []sampler.FrameID(nil)
	var innermost sampler.Frame
	for ruby != 0 {
		caller, id := r.dict.Stack(ruby)
		if innermost = r.dict.Frame(id); !innermost.IsNative() {
			break
		}
		ruby, below = caller, append(below, id)
	}
	at := ranPlace{k.Thread, ruby, k.State}
	r.places[at] = append(r.places[at], ranPart{stack: k.Stack, n: n})
	method := ranMethod{frameKey(&innermost, false), k.State}
	pool := r.methods[method]
	if pool == nil {
		pool = &ranPool{parts: make(map[string]*ranPart)}
		r.methods[method] = pool
	}
	pool.total += n
	if len(below) == 0 {
		return
	}
	var key []byte
	for _, id := range below {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	p := pool.parts[string(key)]
	if p == nil {
		p = &ranPart{below: below}
		pool.parts[string(key)] = p
	}
	p.n += n
}

// of returns the parts of a stack, and the sum of what was taken. It returns nil if nothing is known.
func (r *Ran) of(k *Key) (list []ranPart, total int64) {
	list = r.places[ranPlace{k.Thread, k.Stack, k.State}]
	for _, p := range list {
		total += p.n
	}
	if len(list) > 0 || k.Stack == 0 {
		return list, total
	}
	_, id := r.dict.Stack(k.Stack)
	f := r.dict.Frame(id)
	pool := r.methods[ranMethod{frameKey(&f, false), k.State}]
	if f.IsNative() || pool == nil {
		return nil, 0
	}
	return pool.list, pool.total
}

// Divide calls emit with the parts of an entry, whose sum is the entry. Objects stay with the Ruby stack, because they
// are not in proportion to time.
func (r *Ran) Divide(e Entry, emit func(Entry)) {
	if r == nil {
		emit(e)
		return
	}
	left := e
	list, total := r.of(&e.Key)
	for _, p := range list {
		if p.stack == e.Key.Stack {
			continue
		}
		part := Entry{Key: e.Key, Weights: e.Weights.timesOf(p.n, total)}
		if part.Weights == (Weights{}) {
			continue
		}
		if part.Key.Stack = p.stack; p.stack == 0 {
			part.Key.Stack = e.Key.Stack
			for _, id := range slices.Backward(p.below) {
				part.Key.Stack = r.dict.InternStack(part.Key.Stack, id)
			}
		}
		left.Weights = left.Weights.minus(part.Weights)
		emit(part)
	}
	// If every stack has C functions, only what rounding has left over is the Ruby stack's own.
	if left.Weights != (Weights{}) || len(list) == 0 {
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

// divide divides the entries of a Snapshot, and removes the entries with Key.Ran.
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
