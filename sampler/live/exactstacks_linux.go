package live

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/ruby"
)

const (
	// maxUnnamed bounds the stacks that wait for a name, about 5 MB. Beyond it a wait has the stack that sampling saw.
	maxUnnamed = 256
	// namedAtOnce is the number of stacks that the clock names in a tick. Each takes 20 to 100 µs.
	namedAtOnce = 24
	// nameWithinNS is how long records wait for the name of a stack, in ns. The clock names some every 10 to 100 ms.
	nameWithinNS = 300_000_000
	// maxHeld bounds the records that wait for a name. More would not fit into a sample.
	maxHeld = 1 << 13
	// maxNames bounds the names that are kept, about 2 MB; past it they are forgotten.
	maxNames = 1 << 14
)

// waitStack is the stack of a finished wait. Only the clock may ask for the names of its frames.
type waitStack struct {
	key     uint64
	copied  ruby.CopiedStack
	memory  []byte // of copied
	takenNS int64
	// before is its last name, which may be outdated.
	before stackName
	// named is set when the clock has set name.
	named atomic.Bool
	name  stackName
}

type stackName struct {
	// id is 0 if the name is unknown. resumes is id without the C functions at its inner end.
	id, resumes sampler.StackID
	proof       ruby.StackProof
	// partly: names that belong to it could not be read, and may be the next time.
	partly bool
	// revision counts the times at which a proof may have ceased to hold.
	revision uint64
}

// waitStacks names stacks. One goroutine requests names, the clock gives them, and neither waits.
type waitStacks struct {
	seed  maphash.Seed
	names map[uint64]stackName
	key   []byte
	spare []*waitStack
	// taken are the stacks of the current drain. ended is true if no more stacks are named.
	taken []takenStack
	ended bool
	// toName goes to the clock. revision counts the times at which proofs may become void. over means that there is
	// no clock.
	toName   chan *waitStack
	revision atomic.Uint64
	over     atomic.Bool
	// last is the clock's.
	last ruby.Revision
}

func newWaitStacks() *waitStacks {
	return &waitStacks{seed: maphash.MakeSeed(), names: make(map[uint64]stackName), toName: make(chan *waitStack, maxUnnamed)}
}

// takenStack is the stack of a record, with its name or with what will have the name.
type takenStack struct {
	ns      int64
	tid     int32
	name    stackName
	unnamed *waitStack
}

// each calls fn with the stacks that were taken since the last call.
func (w *waitStacks) each(fn func(*takenStack)) {
	for i := range w.taken {
		fn(&w.taken[i])
	}
	clear(w.taken)
	w.taken = w.taken[:0]
}

// take adds a stack. running is true if its thread was interrupted while it ran.
func (w *waitStacks) take(r *ruby.Reader, s *probe.Stack, running bool, nowNS int64) {
	x := takenStack{ns: s.NS, tid: s.TID}
	x.name, x.unnamed = w.find(r, s, running, nowNS)
	w.taken = append(w.taken, x)
}

// find returns the name of a stack if it is known, else the request for it.
func (w *waitStacks) find(r *ruby.Reader, s *probe.Stack, running bool, nowNS int64) (stackName, *waitStack) {
	copied := ruby.CopiedStack{Low: s.Low, End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Values, Running: running}
	w.key = r.CopiedKey(&copied, w.key[:0])
	key := maphash.Bytes(w.seed, w.key)
	name, known := w.names[key]
	if known && name.revision == w.revision.Load() {
		return name, nil
	}
	var x *waitStack
	if n := len(w.spare); n > 0 {
		x, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		x = new(waitStack)
	}
	x.memory = append(append(x.memory[:0], s.Frames...), s.Values...)
	copied.Frames, copied.Values = x.memory[:len(s.Frames)], x.memory[len(s.Frames):]
	x.key, x.copied, x.takenNS, x.before, x.name = key, copied, nowNS, name, stackName{}
	x.named.Store(false)
	select {
	case w.toName <- x:
		return stackName{}, x
	default:
		w.spare = append(w.spare, x)
		return stackName{}, nil
	}
}

// ready reports whether a stack has its name, or is not to be waited for any longer.
func (w *waitStacks) ready(x *waitStack, nowNS int64) bool {
	return x.named.Load() || w.ended || w.over.Load() || nowNS-x.takenNS >= nameWithinNS
}

// nameOf is the name of a stack that is ready.
func (w *waitStacks) nameOf(x *waitStack) stackName {
	if !x.named.Load() {
		return stackName{} // the clock still has it
	}
	if x.name.id != 0 && !x.name.partly {
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

// give names the requested stacks. The clock calls it between two readings.
func (w *waitStacks) give(r *ruby.Reader, dict *sampler.Dictionary, nowNS int64) {
	w.over.Store(false)
	if now := r.Revision(); now != w.last {
		w.last = now
		w.revision.Add(1)
	}
	for n := 0; n < namedAtOnce; {
		select {
		case x := <-w.toName:
			if nowNS-x.takenNS >= nameWithinNS {
				continue // nobody waits for it any more, and what it names can be gone
			}
			n++
			if x.name = x.before; x.name.id == 0 || !r.Holds(x.name.proof) {
				x.name = stackName{}
				if id, proof, whole, err := r.NameCopied(&x.copied); err == nil {
					x.name = stackName{id: id, resumes: resumes(dict, id), proof: proof, partly: !whole}
				}
			}
			x.name.revision = w.revision.Load()
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

// nameStacks names stacks of waits. The clock calls it between two readings.
func (x *exactRun) nameStacks() { x.stacks.give(x.source.reader, x.source.dict, pace.Monotonic()) }

// withoutClock lets records continue without names until the clock names stacks again.
func (x *exactRun) withoutClock() { x.stacks.over.Store(true) }
