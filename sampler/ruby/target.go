package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// target is the process being read, with the data that all parts of a Reader need. This includes its VM, and the plan
// and the time limit of the current tick.
type target struct {
	pid    int
	vm     *VM
	mem    attach.Memory
	dec    *code.Decoder
	dict   *sampler.Dictionary
	o      *rubyvm.Offsets
	era    sampler.Era
	now    func() int64
	gc     *gc.Reader // nil if the collector can't be read
	reads  sampler.Reads
	budget budget
	// shared is the number of processes that share the limits (Reader.Share).
	shared int
	// collecting is true if a thread collects garbage in the current tick.
	collecting bool
	// plan lists the ranges of memory that the tick's last call has read.
	plan    plan
	scratch []attach.Range
}

// Era says which kind of scheduler the target's Ruby has. It depends on the release.
func (r *target) Era() sampler.Era { return r.era }

// Reads counts, since the start, the reads of the target's memory and how many of them failed.
func (r *target) Reads() *sampler.Reads { return &r.reads }

// le32 and le64 return the little-endian number at the start of b. The caller has checked the length.
func le32(b []byte) uint32 { return view.U32(b) }
func le64(b []byte) uint64 { return view.U64(b) }

func (r *target) readWord(at attach.Address) (word uint64, ok bool) {
	var b [8]byte
	ok = r.mem.Read(at, b[:]) == nil
	return le64(b[:]), ok
}

// wordAt reads a word of the target. The result is zero if the word cannot be read.
func (r *target) wordAt(at attach.Address) uint64 {
	word, ok := r.readWord(at)
	if !ok {
		return 0
	}
	return word
}

// addressAt reads an address from the target. The result is zero if the address cannot be read.
func (r *target) addressAt(at attach.Address) attach.Address { return attach.Address(r.wordAt(at)) }

// contextOf returns the address of the execution context of a fiber, which is a part of the fiber's struct. fiberOf is
// the reverse: it returns the fiber of a context.
func (r *target) contextOf(fiber attach.Address) attach.Address {
	return fiber + attach.Address(r.o.FiberSavedEC)
}
func (r *target) fiberOf(context attach.Address) attach.Address {
	return context - attach.Address(r.o.FiberSavedEC)
}

// firstFiber returns a thread's first fiber. It is zero if Ruby has not made it yet, or if the release keeps none.
func (r *target) firstFiber(t *thread) attach.Address {
	if r.o.ThRootFiber < 0 {
		return 0
	}
	return attach.Address(le64(t.buf[r.o.ThRootFiber:]))
}

// activeFibers returns the fiber that runs on an execution context, and the fibers that have resumed it, from inner to
// outer. whole is false if one of them could not be read, or if there are more than maxFibers.
func (r *target) activeFibers(context attach.Address) (fibers []attach.Address, whole bool) {
	for fiber := r.fiberOf(context); fiber != 0; {
		if fibers = append(fibers, fiber); len(fibers) > maxFibers {
			return fibers, false
		}
		prev, ok := r.readWord(fiber + attach.Address(r.o.FiberPrev))
		if !ok {
			return fibers, false
		}
		fiber = attach.Address(prev)
	}
	return fibers, true
}
