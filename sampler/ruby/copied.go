package ruby

import (
	"encoding/binary"
	"errors"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// CopiedStack is a Ruby stack that a BPF program in the kernel has copied. During the copy, the stack's thread did not
// run.
type CopiedStack struct {
	// Low and End are the ends of the VM's stack, CFP the address of the innermost control frame.
	Low, End, CFP attach.Address
	// Frames has the bytes from CFP to End. Values has the bytes from Low on, at least to the stack pointer of the
	// innermost frame.
	Frames, Values []byte
	// Running is true if the thread was interrupted while running Ruby code. Its innermost frame may be incomplete.
	Running bool
}

// copier turns CopiedStacks into StackIDs.
type copier struct {
	*target
	stacks *stackReader
}

// StackProof is the data with which the method Holds checks whether the StackID of a CopiedStack is still valid.
type StackProof struct {
	proof      code.Proof
	generation sampler.Generation
}

// errNotFrames means that the copied bytes cannot be control frames.
var errNotFrames = errors.New("what was copied are no control frames")

// Contexts returns the offset in an rb_thread_t of the pointer to its execution context, in bytes. ok is true if ddtop
// can find the names of copied stacks. With ZJIT it cannot, because parts of the frames are elsewhere.
func (r *copier) Contexts() (at int, ok bool) { return r.o.ThEC, !r.vm.ZJITFrames && r.o.ThEC >= 0 }

// CopiedKey appends to key all data on which the StackID of a copied stack depends. Two stacks with the same key have
// the same StackID, while the proof for one of them is valid.
//
// For each frame, the key has the code, the position in the code, and the method that the frame's environment names. If
// the environment is on the heap, the key lacks the method. In this case the code alone decides the name, unless
// several classes share a method's body (def in a hook that several modules run). CopiedKey does not read any changing
// state of the Reader, so any goroutine may call it.
func (r *copier) CopiedKey(s *CopiedStack, key []byte) []byte {
	size := r.o.Code.FrameSize
	for f := s.Frames; len(f) >= size; f = f[size:] {
		key = append(key, f[code.FramePC:code.FramePC+8]...)
		key = append(key, f[code.FrameISeq:code.FrameISeq+8]...)
		me := uint64(0)
		if at := int64(le64(f[code.FrameEP:])) - 16 - int64(s.Low); at >= 0 && at <= int64(len(s.Values))-8 {
			me = le64(s.Values[at:])
		}
		key = binary.LittleEndian.AppendUint64(key, me)
	}
	if s.Running {
		key = append(key, 1)
	}
	return key
}

// NameCopied returns the StackID of a copied stack, and a proof to check with Holds later. whole is true if it could
// read all data on which the frames' names depend. Only the goroutine that calls Read may call it, between two Reads.
func (r *copier) NameCopied(s *CopiedStack) (id sampler.StackID, proof StackProof, whole bool, err error) {
	size := r.o.Code.FrameSize
	if n := len(s.Frames); n < size || n%size != 0 || s.CFP+attach.Address(n) != s.End || n/size > r.stacks.maxDepth {
		return 0, StackProof{}, false, errNotFrames
	}
	generation := r.dict.Generation()
	id, info, err := r.dec.Decode(&code.Stack{End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Values, ValuesAt: s.Low, Running: s.Running})
	r.reads.Calls += uint64(info.Calls)
	if err != nil {
		return 0, StackProof{}, false, err
	}
	return id, StackProof{info.Proof, generation}, info.FailedNames == 0 && !info.UncertainTop, nil
}

// Holds reports whether the StackID that NameCopied returned together with p is still valid. Only the goroutine that
// calls Read may call it.
func (r *copier) Holds(p StackProof) bool {
	return p.generation == r.dict.Generation() && r.dec.Holds(p.proof)
}

// Revision returns a value that changes when a StackProof may be invalid. Only the goroutine calling Read may call it.
func (r *copier) Revision() Revision { return Revision{r.dict.Generation(), r.dec.Generation()} }

// Revision identifies a period in which every StackProof stays valid.
type Revision struct {
	dictionary sampler.Generation
	code       uint64
}

// CopiedControls returns the control frames of a copied stack (see Controls). It reads environments on the heap from
// mem. ok is false if it cannot read one. Any goroutine may call it.
func (r *copier) CopiedControls(mem attach.Memory, s *CopiedStack) (frames []code.Control, whole, ok bool) {
	n := len(s.Frames) / r.o.Code.FrameSize
	copied := code.Copied{Memory: mem, Low: s.Low, End: s.End, Values: s.Values}
	frames, ok = r.dec.Controls(copied, s.Frames[:min(n, maxControlFrames)*r.o.Code.FrameSize])
	return frames, n <= maxControlFrames, ok
}
