// Package code turns control frames into the names and lines of Ruby code. It reads iseqs (compiled code), method
// entries, and the environments that lead to them. After a garbage collection it compares what it has cached with the
// target's memory (docs/internals/code.md). It does not handle threads.
package code

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// ErrTorn means that frames do not fit the structures they point to. The frames changed between two reads, or a
// compaction is moving objects. The caller must read the frames again.
var ErrTorn = errors.New("the stack changed while it was read")

// Stack is the stack of one thread or fiber as read from memory.
type Stack struct {
	// End is the end of the VM stack, vm_stack + 8*vm_stack_size. CFP is the address of the innermost control frame.
	End, CFP attach.Address
	// Frames are the control frames [CFP, End), innermost first, the dummy frame at the end included.
	Frames []byte
	// Values is the lower part of the VM stack that is in use. Its first byte is at the address ValuesAt. Values is nil
	// if this part was not read. The Decoder reads missing parts from the target.
	Values   []byte
	ValuesAt attach.Address
	// Running is true if the thread runs. Its innermost frame may then be about to change, or may not be written yet.
	Running bool
	// Settled is true if the innermost frame's pc is current although the thread runs. This is so while the thread
	// collects garbage: even compiled code writes the pc before it allocates an object.
	Settled bool
	// Partial is true if the innermost frames were left out, because two copies of the stack differed in them. The
	// innermost frame that remains may then be unfilled, because some releases move ec->cfp, the pointer to the
	// innermost frame, before they fill this frame.
	Partial bool
	// Again is true if the thread runs and the caller can read its stack again. If a frame that must have a method has
	// none, Ruby pushed this frame during the reading. With Again, Decode then returns ErrTorn to request another
	// reading. Without Again, Decode uses the name of the frame's code.
	Again bool
	// Racing is true if the thread ran while its stack was copied. Two equal copies may then still mix two chains of
	// calls. So Decode checks that each frame calls the next one inward, and otherwise returns ErrUnlinked.
	Racing bool
	// EC is the address of the thread's execution context in Ruby. Kept has the results that the last Decode kept for
	// this stack. Kept may be nil.
	EC   attach.Address
	Kept *Kept
	// Cut is above 0 if the middle of the stack is missing. Frames then has the Cut innermost frames, followed by outer
	// frames.
	Cut int
	// JIT has the address of each control frame's JIT frame, or 0 if there is none (ZJIT of head). The caller sets it
	// if it has read these addresses together with Frames (see Decoder.JITSlots). If it is nil, the Decoder reads them
	// later. If the thread runs, they may then not fit the frames.
	JIT []attach.Address
}

// Info says how a stack was decoded.
type Info struct {
	// UncertainTop is true if the innermost frame cannot be trusted. Its pc may be out of date (JIT), or only the outer
	// part of the stack is complete. Some releases publish a frame before they have filled it (2.5 to 2.7, and YJIT of
	// 3.1).
	UncertainTop bool
	// Frames is the number of frames of the stack.
	Frames int
	// FailedNames is the number of frames that lack a name or a class because it could not be read.
	FailedNames int
	// Placeless is the number of C functions that were left out because they have no path and line. A C function gets
	// its path and line from its Ruby caller. Here this caller is in the part of the stack that was cut out.
	Placeless int
	// Calls is the number of system calls that Decode made.
	Calls int
	// Reused is the number of outermost control frames for which Decode used earlier results.
	Reused int
	// Handlers is the number of control frames that run the code of a rescue or an ensure.
	Handlers int
	// Unlinked is set together with ErrUnlinked. It is the number of innermost control frames that the outer frames
	// cannot have called.
	Unlinked int

	// Proof shows later whether the result is still valid, if the control frames have not changed.
	Proof Proof
}

// maxDecodeTries limits how often a stack is decoded again because memory that it refers to has changed.
const maxDecodeTries = 3

// Decoder turns raw control frames into named frames. It caches the iseqs, methods and names that it has read, and
// checks them again when they may have changed (see Revalidate). It is not safe for concurrent use.
type Decoder struct {
	classifier
	// made has what the current Decode found out about the frames in work: the outerFrames of each control frame.
	made []outerFrames
}

// loader reads iseqs and methods, and caches them.
type loader struct {
	// Objects reads Ruby objects from the target. Callers of this package use it, too.
	Objects *heap.Objects
	view    *view.View // the memory that Objects reads
	target  Target
	o       *Places
	dict    *sampler.Dictionary
	rules   frameRules
	cache
	// bodySize is how many bytes of the body of compiled code (iseq) are read. bodyHead is how many bytes at the
	// beginning of the body are compared: a cached iseq is valid only while they are unchanged.
	bodySize, bodyHead int
	loadPath           loadPathState
	// lastNameError is the latest error that was counted in Info.FailedNames.
	lastNameError error
}

// validator checks that cached entries still match the target's memory.
type validator struct{ loader }

// environments find the method of a frame through the frame's environment, which has its variables (rb_env_t, or a part
// of the VM stack).
type environments struct {
	validator
	// seen has the environments (of variables) on the VM stack that were read, in no order. fleeting is true if the
	// current frame needed an environment on the VM stack that is not in seen. youngEnv is true if the frame's method
	// was found through an environment on the heap that is not old (old: it has survived several collections).
	seen     []envPlace
	fleeting bool
	youngEnv bool
}

// classifier finds out what kind of frame each control frame is, such as a method, a block or a C function.
type classifier struct {
	environments
	// jitOn is the active JIT, or nil. While it is nil, the classifier checks for a JIT again after jitWait more
	// frames.
	jitOn   *JIT
	jitWait int
	// work has the control frames that the current Decode must decode, innermost first. For all other frames, Decode
	// uses the results of an earlier Decode.
	work []frameWork
	info Info
}

// Target is the VM whose code is decoded. It does not change.
type Target struct {
	Mem     attach.Memory
	Release places.Release
	// Code and Objects say where the release keeps the fields of its structs.
	Code    *Places
	Objects *heap.Places
	// VM and Symbols are the addresses of rb_vm_t and of rb_symbols_t.
	VM, Symbols attach.Address
	// Shapes and Variables have the same meaning as in heap.Objects.
	Shapes    attach.Address
	Variables func(f func(at attach.Address, word uint64)) error
	// ZJITFrames is true if a control frame may lack its iseq and pc, because a JIT frame has them. EarlyFrames is true
	// if Ruby moves ec->cfp before it fills the new frame, because a JIT is on. For releases that always do this,
	// rules.earlyFrames is true instead.
	ZJITFrames, EarlyFrames bool
	// JITs are the JIT compilers that the process may use.
	JITs []JIT
}

// NewDecoder returns a Decoder for the code of t. The Decoder adds frames and stacks to dict.
func NewDecoder(t Target, dict *sampler.Dictionary) *Decoder {
	o, v := t.Code, view.New(t.Mem)
	d := new(Decoder)
	d.target, d.dict, d.o, d.rules, d.view = t, dict, o, rulesOf(t.Release), v
	d.Objects = heap.New(v, t.Objects, t.VM, t.Symbols)
	d.Objects.Shapes, d.Objects.Variables = t.Shapes, t.Variables
	d.cache.init()
	d.bodyHead = max(o.bodyFirstLine.Offset, o.bodyInsns, o.bodyInsnsSize, o.bodySucc) + 8
	d.bodySize = max(d.bodyHead, o.bodyParent+8, o.bodyLocal+8, o.bodyAttrs+4)
	return d
}

// FrameSize is the size of a control frame in bytes.
func (d *loader) FrameSize() int { return d.o.FrameSize }

// Share sets the number of processes that are read. Each process gets an equal part of the limits of the caches.
func (d *validator) Share(n int) {
	d.maxKept, d.Objects.MaxKept = sampler.Share(MaxKeptBytes, n), sampler.Share(heap.MaxKeptBytes, n)
}

// LastNameError returns the last reason why a frame lacked a name. It is nil if no frame has lacked a name.
func (d *loader) LastNameError() error { return d.lastNameError }

// Decode names the frames of a stack, and interns the stack in the Dictionary. The frames are the same as in the
// release's own Thread#backtrace_locations. After ErrTorn, or an error about unreadable memory, the caller should read
// the stack again and call Decode again. An error of package attach means that the target has ended.
func (d *Decoder) Decode(raw *Stack) (sampler.StackID, Info, error) {
	n := len(raw.Frames) / d.o.FrameSize
	if n == 0 || len(raw.Frames)%d.o.FrameSize != 0 || n > maxFrames {
		return 0, Info{}, fmt.Errorf("%w: %d bytes are not control frames", ErrTorn, len(raw.Frames))
	}
	calls := d.view.Calls
	if !d.loadPath.read {
		d.refreshLoadPath(d.checkedNS)
	}
	for range maxDecodeTries {
		d.view.Reset()
		d.begin()
		losses := d.losses
		found, meant := d.prepare(raw)
		d.info = Info{UncertainTop: d.halfWritten(raw), Reused: meant}
		if err := d.view.Settle(func() error { return d.classify(raw) }); err != nil {
			d.forgetFresh()
			return 0, Info{Calls: d.view.Calls - calls}, err
		}
		same, err := d.check()
		if err != nil {
			return 0, Info{Calls: d.view.Calls - calls}, err
		}
		if !same {
			continue
		}
		if n, err := d.raced(raw, meant); err != nil {
			return 0, Info{Calls: d.view.Calls - calls, Unlinked: n}, err
		}
		var all outerFrames
		if err := d.view.Settle(func() (err error) {
			all = raw.Kept.outer(meant)
			return d.internFrames(raw, &all)
		}); err != nil {
			return 0, Info{Calls: d.view.Calls - calls}, err
		}
		if losses != d.losses && found > 0 {
			continue // an entry of the kept part may have been dropped
		}
		d.info.Frames, d.info.Handlers, d.info.Calls = int(all.shown), int(all.handlers), d.view.Calls-calls
		d.info.Proof = Proof{generation: d.generation, loadPath: d.loadPath.version, old: all.old, final: all.final}
		d.keepFrames(raw, meant, losses)
		return all.stack, d.info, nil
	}
	return 0, Info{Calls: d.view.Calls - calls}, ErrTorn
}

// halfWritten reports whether the whole innermost frame can be wrong, and not only its line. There are two possible
// causes. Some releases move ec->cfp, the pointer to the innermost frame, before they fill the new frame. And on a
// partial stack, the innermost frame can belong to another chain of calls than the other frames.
func (d *classifier) halfWritten(raw *Stack) bool {
	return raw.Partial || raw.Running && (d.rules.earlyFrames || d.target.EarlyFrames)
}

// prepare sets d.work to the frames that must be decoded, because there is no earlier result for them. It returns the
// results of the method reuse.
func (d *Decoder) prepare(raw *Stack) (found, meant int) {
	found, meant = d.reuse(raw)
	n := len(raw.Frames)/d.o.FrameSize - 1 - meant // the dummy at the bottom is never shown
	d.work = slices.Grow(d.work[:0], n)[:n]
	clear(d.work)
	d.seen = d.seen[:0]
	for i := meant; i < found; i++ {
		w := &d.work[n-1-(i-meant)]
		*w = raw.Kept.decoded[i].work
		envs := raw.Kept.envsOf(i)
		w.envs = int32(len(d.seen))
		d.seen = append(d.seen, envs...)
		w.envsTo = int32(len(d.seen))
	}
	return found, meant
}
