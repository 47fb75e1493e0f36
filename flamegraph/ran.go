package flamegraph

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// ranIn returns the state that a running thread was in when the kernel copied its stack.
func ranIn(r *sampler.NativeRun) gvl.State {
	switch {
	case r.Holds && r.Collects:
		return gvl.GC
	case r.Holds:
		return gvl.Running
	}
	return gvl.Native
}

// runs emits a sample's stacks of running threads, under separate keys (Key.Ran).
func (c *Collector) runs(s *sampler.Sample) {
	for i := range s.Runs {
		r := &s.Runs[i]
		c.emit(r.AtNS, Key{Thread: r.Thread, Stack: r.Stack, State: ranIn(r), Ran: true}, Weights{Samples: 1})
	}
}

// A Ran has the C functions in which threads ran below each Ruby stack. It divides the time of a Ruby stack among these
// C functions, in proportion to the number of stacks that the kernel copied. If the kernel copied no stack below a Ruby
// stack, Ran uses the copied stacks with the same innermost method, of any thread and caller. A nil Ran divides
// nothing. Only one goroutine at a time may use the Rans of a Rolling, because they share a cache.
type Ran struct {
	known *ranStacks
	// places has, for each Ruby stack, the whole stacks that the kernel copied while a thread was in it. methods has,
	// for each innermost method, only the C functions of such stacks.
	places  map[ranPlace][]ranPart
	methods map[ranMethod]*ranPool
}

// ranPlace is a thread's Ruby stack in one state.
type ranPlace struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	state  gvl.State
}

// ranMethod identifies all stacks with the same innermost Ruby method (ranStack.method) in one state of the thread.
type ranMethod struct {
	number int32
	state  gvl.State
}

// ranPart is a stack that the kernel copied from a running thread, or the C functions that several such stacks share.
// It has the number of copies.
type ranPart struct {
	// stack is a Ruby stack, with the C functions below it if there are any. If stack is zero, the part has only C
	// functions, and chain is their index in ranStacks.chains.
	stack sampler.StackID
	chain int32
	n     int64
}

// ranPool counts the stacks that the kernel copied in one method. parts has the number for each group of C functions.
// total also includes stacks without C functions.
type ranPool struct {
	parts map[int32]int64
	list  []ranPart
	total int64
}

// maxRanParts limits the number of C functions among which the time of a stack is divided if only its innermost method
// is known. The remaining time belongs to the Ruby frame.
const maxRanParts = 16

// NewRan returns the Ran made from the entries with Key.Ran. It is nil if there are no such entries.
func NewRan(dict *sampler.Dictionary, entries []Entry) *Ran {
	return (&ranStacks{dict: dict}).ran(entries)
}

func (x *ranStacks) ran(entries []Entry) *Ran {
	x.forget()
	var r *Ran
	for i := range entries {
		e := &entries[i]
		if !e.Key.Ran || e.Key.Stack == 0 {
			continue
		}
		if r == nil {
			r = &Ran{known: x, places: make(map[ranPlace][]ranPart), methods: make(map[ranMethod]*ranPool)}
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
		for chain, n := range pool.parts {
			pool.list = append(pool.list, ranPart{chain: chain, n: n})
		}
		slices.SortFunc(pool.list, func(a, b ranPart) int {
			return cmp.Or(cmp.Compare(b.n, a.n), slices.Compare(x.chains[a.chain], x.chains[b.chain]))
		})
		pool.list = pool.list[:min(len(pool.list), maxRanParts)]
	}
	return r
}

// add adds a stack, with its C functions, that the kernel copied n times.
func (r *Ran) add(k *Key, n int64) {
	s := r.known.of(k.Stack)
	at := ranPlace{k.Thread, s.ruby, k.State}
	r.places[at] = append(r.places[at], ranPart{stack: k.Stack, n: n})
	method := ranMethod{s.method, k.State}
	pool := r.methods[method]
	if pool == nil {
		pool = &ranPool{parts: make(map[int32]int64)}
		r.methods[method] = pool
	}
	if pool.total += n; s.chain != 0 {
		pool.parts[s.chain] += n
	}
}

// of returns the parts among which a stack's time is divided, and the total number of copied stacks on which they are
// based. list is nil if nothing is known.
func (r *Ran) of(k *Key) (list []ranPart, total int64) {
	list = r.places[ranPlace{k.Thread, k.Stack, k.State}]
	for _, p := range list {
		total += p.n
	}
	if len(list) > 0 || k.Stack == 0 {
		return list, total
	}
	s := r.known.of(k.Stack)
	if pool := r.methods[ranMethod{s.method, k.State}]; pool != nil && s.chain == 0 {
		return pool.list, pool.total
	}
	return nil, 0
}

// Divide calls emit with the parts of an entry. The parts add up to the entry. Divide divides only times and samples.
// The counts of allocated objects stay with the Ruby stack, because they are not in proportion to time.
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
			part.Key.Stack = r.known.join(e.Key.Stack, p.chain)
		}
		left.Weights = left.Weights.minus(part.Weights)
		emit(part)
	}
	// If every copied stack has C functions, the Ruby stack itself keeps only what rounding has left over.
	if left.Weights != (Weights{}) || len(list) == 0 {
		emit(left)
	}
}

// maxRanStacks limits how many stacks are remembered between two Snapshots.
const maxRanStacks = 1 << 16

// ranStacks caches how stacks split into Ruby frames and C functions. The cache saves time, because a screen makes
// several Snapshots per second.
type ranStacks struct {
	dict *sampler.Dictionary
	// in is the Dictionary's generation to which the IDs belong. The Dictionary gets a new generation when it drops
	// entries, so older IDs may be invalid then.
	in      sampler.Generation
	stacks  map[sampler.StackID]ranStack
	joined  map[ranJoin]sampler.StackID
	methods map[FuncKey]int32
	// chains are the C functions of stacks, innermost first. The first chain is empty.
	chains  [][]sampler.FrameID
	numbers map[string]int32
}

// ranStack is a stack in two parts. ruby is the stack of its Ruby frames only, and chain is the index of its C
// functions in chains. method is the number of the innermost Ruby method.
type ranStack struct {
	ruby          sampler.StackID
	method, chain int32
}

type ranJoin struct {
	stack sampler.StackID
	chain int32
}

// forget drops everything that is cached if the Dictionary may have evicted IDs, or if there are too many stacks.
func (x *ranStacks) forget() {
	if g := x.dict.Generation(); x.stacks == nil || g != x.in || len(x.stacks)+len(x.joined) > maxRanStacks {
		*x = ranStacks{dict: x.dict, in: g, stacks: make(map[sampler.StackID]ranStack), joined: make(map[ranJoin]sampler.StackID),
			methods: make(map[FuncKey]int32), chains: make([][]sampler.FrameID, 1), numbers: make(map[string]int32)}
	}
}

// of returns how a stack splits into Ruby frames and C functions.
func (x *ranStacks) of(id sampler.StackID) ranStack {
	if s, ok := x.stacks[id]; ok {
		return s
	}
	s := ranStack{ruby: id}
	var chain []sampler.FrameID
	var key []byte
	var innermost sampler.Frame
	for s.ruby != 0 {
		caller, frame := x.dict.Stack(s.ruby)
		if innermost = x.dict.Frame(frame); !innermost.IsNative() {
			break
		}
		s.ruby, chain = caller, append(chain, frame)
		key = binary.LittleEndian.AppendUint32(key, uint32(frame))
	}
	method := frameKey(&innermost, false)
	if s.method = x.methods[method]; s.method == 0 {
		s.method = int32(len(x.methods) + 1)
		x.methods[method] = s.method
	}
	if len(chain) > 0 {
		if s.chain = x.numbers[string(key)]; s.chain == 0 {
			s.chain = int32(len(x.chains))
			x.chains, x.numbers[string(key)] = append(x.chains, chain), s.chain
		}
	}
	x.stacks[id] = s
	return s
}

// join returns a Ruby stack with C functions below it.
func (x *ranStacks) join(ruby sampler.StackID, chain int32) sampler.StackID {
	at := ranJoin{ruby, chain}
	id, ok := x.joined[at]
	if !ok {
		id = ruby
		for _, frame := range slices.Backward(x.chains[chain]) {
			id = x.dict.InternStack(id, frame)
		}
		x.joined[at] = id
	}
	return id
}

// timesOf returns only the times and the number of samples in w, each multiplied by n/total and rounded down. A time in
// w is negative if it was moved to another request. timesOf treats a negative time as zero.
func (w Weights) timesOf(n, total int64) Weights {
	part := func(a int64) int64 { return mulDiv(max(a, 0), n, total) }
	return Weights{WallNS: part(w.WallNS), CPUNS: part(w.CPUNS), WaitNS: part(w.WaitNS), BlameNS: part(w.BlameNS),
		Samples: part(w.Samples)}
}

// divide divides the entries of a Snapshot among C functions, and removes the entries with Key.Ran.
func (s *Snapshot) divide(known *ranStacks) {
	if s.Ran = nil; !slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Key.Ran }) {
		return
	}
	if known != nil {
		s.Ran = known.ran(s.Entries)
	}
	out := make([]Entry, 0, len(s.Entries))
	for _, e := range s.Entries {
		if !e.Key.Ran {
			s.Ran.Divide(e, func(e Entry) { out = append(out, e) })
		}
	}
	s.Entries = out
}
