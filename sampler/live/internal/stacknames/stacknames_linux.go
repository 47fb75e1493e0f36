package stacknames

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/ruby"
)

const (
	// maxUnnamed bounds the stacks that wait for a name, about 5 MB. Beyond it a stack gets no name.
	maxUnnamed = 256
	// namedAtOnce is the number of stacks that the clock names in a tick. Each takes 20 to 100 µs.
	namedAtOnce = 24
	// WithinNS is how long records wait for the name of a stack, in ns. The clock names some every 10 to 100 ms.
	WithinNS = 300_000_000
	// maxNames bounds the names that are kept, about 2 MB; past it they are forgotten.
	maxNames = 1 << 14
)

// Unnamed is a stack that waits for its name. Only the clock may ask for the names of its frames.
type Unnamed struct {
	key     uint64
	copied  ruby.CopiedStack
	memory  []byte // of copied
	takenNS int64
	// before is its last name, which may be outdated.
	before Name
	// named is set when the clock has set name.
	named atomic.Bool
	name  Name
}

// Name is the name of a stack.
type Name struct {
	// ID is 0 if the name is unknown. Resumes is ID without the C functions at its inner end.
	ID, Resumes sampler.StackID
	proof       ruby.StackProof
	// partly: names that belong to it could not be read, and may be the next time.
	partly bool
	// revision counts the times at which a proof may have ceased to hold. generation is the Dictionary's.
	revision   uint64
	generation sampler.Generation
}

// Stacks names stacks. One goroutine requests names, the clock gives them, and neither waits.
type Stacks struct {
	seed  maphash.Seed
	names map[uint64]Name
	key   []byte
	spare []*Unnamed
	// taken are the stacks of the current drain. ended is true if no more stacks are named.
	taken []Taken
	ended bool
	// toName goes to the clock. revision counts the times at which proofs may become void. over means that there is
	// no clock.
	toName   chan *Unnamed
	revision atomic.Uint64
	over     atomic.Bool
	// last is the clock's.
	last ruby.Revision
}

// New returns Stacks without any name.
func New() *Stacks {
	return &Stacks{seed: maphash.MakeSeed(), names: make(map[uint64]Name), toName: make(chan *Unnamed, maxUnnamed)}
}

// End ends the naming. Stacks without a name get none. The goroutine that requests names calls it.
func (w *Stacks) End() { w.ended = true }

// WithoutClock says that no stack gets a name until the clock calls Give again.
func (w *Stacks) WithoutClock() { w.over.Store(true) }

// Void reports whether the code may have changed since a stack was named.
func (w *Stacks) Void(name *Name) bool { return name.revision != w.revision.Load() }

// In reports whether a stack was named in a generation of the Dictionary, so that its IDs hold.
func (n *Name) In(g sampler.Generation) bool { return n.generation == g }

// Taken is the stack of a record, with its name or with what will have the name.
type Taken struct {
	NS  int64
	TID int32
	// Unnamed is nil if Name is set, or if the stack gets no name.
	Name    Name
	Unnamed *Unnamed
}

// Each calls fn with the stacks that were taken since the last call.
func (w *Stacks) Each(fn func(*Taken)) {
	for i := range w.taken {
		fn(&w.taken[i])
	}
	clear(w.taken)
	w.taken = w.taken[:0]
}

// Take adds a stack. running is true if its thread was interrupted while it ran.
func (w *Stacks) Take(r *ruby.Reader, s *bpf.Stack, running bool, nowNS int64) {
	x := Taken{NS: s.NS, TID: s.TID}
	x.Name, x.Unnamed = w.find(r, s, running, nowNS)
	w.taken = append(w.taken, x)
}

// find returns the name of a stack if it is known, else the request for it.
func (w *Stacks) find(r *ruby.Reader, s *bpf.Stack, running bool, nowNS int64) (Name, *Unnamed) {
	copied := ruby.CopiedStack{Low: s.Low, End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Values, Running: running}
	w.key = r.CopiedKey(&copied, w.key[:0])
	key := maphash.Bytes(w.seed, w.key)
	name, known := w.names[key]
	if known && name.revision == w.revision.Load() {
		return name, nil
	}
	var x *Unnamed
	if n := len(w.spare); n > 0 {
		x, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		x = new(Unnamed)
	}
	x.memory = append(append(x.memory[:0], s.Frames...), s.Values...)
	copied.Frames, copied.Values = x.memory[:len(s.Frames)], x.memory[len(s.Frames):]
	x.key, x.copied, x.takenNS, x.before, x.name = key, copied, nowNS, name, Name{}
	x.named.Store(false)
	select {
	case w.toName <- x:
		return Name{}, x
	default:
		w.spare = append(w.spare, x)
		return Name{}, nil
	}
}

// Ready reports whether a stack has its name, or is not to be waited for any longer.
func (w *Stacks) Ready(x *Unnamed, nowNS int64) bool {
	return x.named.Load() || w.ended || w.over.Load() || nowNS-x.takenNS >= WithinNS
}

// NameOf is the name of a stack that is ready.
func (w *Stacks) NameOf(x *Unnamed) Name {
	if !x.named.Load() {
		return Name{} // the clock still has it
	}
	if x.name.ID != 0 && !x.name.partly {
		if len(w.names) >= maxNames {
			clear(w.names)
		}
		w.names[x.key] = x.name
	}
	if len(w.spare) < maxUnnamed {
		w.spare = append(w.spare, x)
	}
	return x.name
}

// Asked reports whether stacks wait for names. Any goroutine may call it.
func (w *Stacks) Asked() bool { return len(w.toName) > 0 }

// Give names the requested stacks. The clock calls it between two readings.
func (w *Stacks) Give(r *ruby.Reader, dict *sampler.Dictionary, nowNS int64) {
	w.over.Store(false)
	if now := r.Revision(); now != w.last {
		w.last = now
		w.revision.Add(1)
	}
	for n := 0; n < namedAtOnce; {
		select {
		case x := <-w.toName:
			if nowNS-x.takenNS >= WithinNS {
				continue // no caller waits for it, and what it names can be gone
			}
			n++
			if x.name = x.before; x.name.ID == 0 || !r.Holds(x.name.proof) {
				x.name = Name{}
				if id, proof, whole, err := r.NameCopied(&x.copied); err == nil {
					x.name = Name{ID: id, Resumes: resumes(dict, id), proof: proof, partly: !whole}
				}
			}
			x.name.revision, x.name.generation = w.revision.Load(), dict.Generation()
			x.named.Store(true)
		default:
			return
		}
	}
}

// resumes returns a stack without the C functions at its inner end, which is the code that continues when they
// return.
func resumes(dict *sampler.Dictionary, id sampler.StackID) sampler.StackID {
	for range maxCInARow {
		if id == 0 {
			break
		}
		caller, frame := dict.Stack(id)
		if !dict.Frame(frame).C {
			break
		}
		id = caller
	}
	return id
}

// maxCInARow bounds the C functions at the inner end of a stack.
const maxCInARow = 64
