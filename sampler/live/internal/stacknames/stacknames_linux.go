package stacknames

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/ruby"
)

const (
	// maxUnnamed is the largest number of copied stacks that wait for their names (StackIDs). These stacks take about 5
	// MB. Further stacks get no name.
	maxUnnamed = 256
	// namedAtOnce is the largest number of stacks that the clock's goroutine names between two samples. Each takes 20
	// to 100 µs.
	namedAtOnce = 24
	// WithinNS limits how long records wait until their stack has a name, in ns. The clock names stacks every 10 to 100
	// ms.
	WithinNS = 300_000_000
	// maxNames limits the names that are kept to about 2 MB. If there are more, all names are dropped and then found
	// again as needed.
	maxNames = 1 << 14
)

// Unnamed is a copied stack that waits for its name. Only the goroutine that samples (the clock) may find the name.
type Unnamed struct {
	key     uint64
	copied  ruby.CopiedStack
	memory  []byte // the memory that the fields of copied refer to
	takenNS int64
	// before is the name that an earlier copy of this stack had. It may be outdated.
	before Name
	// named becomes true after the clock, the sampling goroutine, has set name.
	named atomic.Bool
	name  Name
}

// Name is the name of a copied stack, which is its StackID in the Dictionary. The other fields show whether this ID is
// still right.
type Name struct {
	// ID is the StackID, or 0 if the name is unknown. Resumes is the StackID of the same stack without its innermost C
	// functions.
	ID, Resumes sampler.StackID
	proof       ruby.StackProof
	// partly is true if the names of some frames could not be read. They may be readable later, so the name is not
	// kept.
	partly bool
	// revision and generation are Stacks.revision and the generation of the Dictionary at the time when the name was
	// found.
	revision   uint64
	generation sampler.Generation
}

// Stacks finds the names of copied stacks (Name). One goroutine requests names, and the goroutine that takes the
// samples (the clock) finds them. Neither waits for the other.
type Stacks struct {
	seed  maphash.Seed
	names map[uint64]Name
	key   []byte
	spare []*Unnamed
	// taken has the stacks that Take has added since the last call of Each. ended is true after the call of End. From
	// then on, no more stacks get names.
	taken []Taken
	ended bool
	// toName has the requests for names, which the clock (the sampling goroutine) answers. revision changes when the
	// target's code may have changed, so that earlier names may be wrong. The field over is true while no clock runs.
	toName   chan *Unnamed
	revision atomic.Uint64
	over     atomic.Bool
	// last is what ruby.Reader.Revision last returned. Only the clock uses it.
	last ruby.Revision
}

// New returns a Stacks that knows no names yet.
func New() *Stacks {
	return &Stacks{seed: maphash.MakeSeed(), names: make(map[uint64]Name), toName: make(chan *Unnamed, maxUnnamed)}
}

// End ends the search for names. From now on, Ready returns true for all stacks, and stacks that still wait get no
// name. Only the goroutine that requests names may call it.
func (w *Stacks) End() { w.ended = true }

// WithoutClock says that no clock (sampling goroutine) runs for now. So no names are found until the next call of Give.
// Until then, Ready returns true for all stacks, and stacks that wait get no name.
func (w *Stacks) WithoutClock() { w.over.Store(true) }

// Void reports whether a name may be outdated, because the target's code may have changed.
func (w *Stacks) Void(name *Name) bool { return name.revision != w.revision.Load() }

// In reports whether a name was found in generation g of the Dictionary. If not, its IDs are not valid in g.
func (n *Name) In(g sampler.Generation) bool { return n.generation == g }

// Taken is the copied stack that belongs to a record. It has either a Name, or the Unnamed that will get the name.
type Taken struct {
	NS  int64
	TID int32
	// Unnamed is nil if Name is set, or if the stack gets no name.
	Name    Name
	Unnamed *Unnamed
}

// Each calls fn with the stacks that Take added since the last call of Each.
func (w *Stacks) Each(fn func(*Taken)) {
	for i := range w.taken {
		fn(&w.taken[i])
	}
	clear(w.taken)
	w.taken = w.taken[:0]
}

// Take adds a stack that a BPF program has copied. running is true if the stack's thread was interrupted while it ran.
func (w *Stacks) Take(r *ruby.Reader, s *bpf.Stack, running bool, nowNS int64) {
	x := Taken{NS: s.NS, TID: s.TID}
	x.Name, x.Unnamed = w.find(r, s, running, nowNS)
	w.taken = append(w.taken, x)
}

// find returns the name of a stack if it is known. Otherwise it requests the name from the clock, and returns the
// request.
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

// Ready reports whether waiting for a stack's name has ended. It has ended if the stack has its name, if no name will
// come, or if WithinNS has passed.
func (w *Stacks) Ready(x *Unnamed, nowNS int64) bool {
	return x.named.Load() || w.ended || w.over.Load() || nowNS-x.takenNS >= WithinNS
}

// NameOf returns the name of a stack for which Ready returned true.
func (w *Stacks) NameOf(x *Unnamed) Name {
	if !x.named.Load() {
		return Name{} // returns no name, because the clock may still write to x
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

// Asked reports whether requests for names are pending. Any goroutine may call it.
func (w *Stacks) Asked() bool { return len(w.toName) > 0 }

// Give gives the requested stacks their names. The clock (the sampling goroutine) calls it between two readings.
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
				continue // the waiting time is over, and the stack's code may have been freed
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

// resumes returns a stack without its innermost C functions. The Ruby code that is left at its inner end continues when
// they return.
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

// maxCInARow limits how many C functions resumes removes.
const maxCInARow = 64
