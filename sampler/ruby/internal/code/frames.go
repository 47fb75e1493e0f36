package code

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// jitReturnC marks the control frame of a C function that ZJIT called (ZJIT_JIT_RETURN_C_FRAME in Ruby's zjit.h).
const jitReturnC = 1

// maxFrames limits how many control frames one Stack has.
const maxFrames = 1 << 17

// maxArguments limits how many arguments a C function has. If a splat (*array) has more, Ruby passes them as one Array.
const maxArguments = 128

// frameRules say which control frames a release shows in its own backtraces, and how
// (docs/internals/stacks.md#what-a-backtrace-shows).
type frameRules struct {
	// cTrace is true if code with the C_TRACE attribute is shown like a C function (3.4).
	cTrace bool
	// internalAsC is true if code whose path begins with <internal: is shown like a C function (4.0 and later). Frames
	// of such code and C functions can follow each other on a stack. In such a row of frames, a backtrace leaves out
	// all frames inward of the outermost frame of such code.
	internalAsC bool
	// rescueHidesCaller is true if a backtrace leaves out a frame while a rescue or ensure in the frame's code runs.
	// The rescue or ensure has a frame too, which is shown instead (3.4 and later).
	rescueHidesCaller bool
	// dummyCode is true if a dummy frame that has code is shown with the first line of this code (4.0 and later).
	dummyCode bool
	// earlyFrames is true if Ruby moves ec->cfp before it fills the new frame. The innermost frame that ddtop reads of
	// a running thread may then still have the content of an older frame (up to 2.7;
	// docs/internals/stacks.md#publication-of-a-frame).
	earlyFrames bool
}

func rulesOf(r places.Release) frameRules {
	return frameRules{
		cTrace:            r.AtLeast(3, 4) && !r.AtLeast(4, 0),
		internalAsC:       r.AtLeast(4, 0),
		rescueHidesCaller: r.AtLeast(3, 4),
		dummyCode:         r.AtLeast(4, 0),
		earlyFrames:       !r.AtLeast(3, 0),
	}
}

// likeC reports whether frames of q are shown like C functions.
func (r frameRules) likeC(q *iseq) bool { return r.cTrace && q.cTrace || r.internalAsC && q.internal }

// frameKind says how a backtrace shows a control frame.
type frameKind uint8

const (
	frameSkipped frameKind = iota
	frameRuby
	frameC
	frameLikeC // Ruby code shown like a C function
)

// posFirstLine is a special value of an instruction's position. It means the first line of the code.
const posFirstLine = ^uint32(0)

// frameWork is what ddtop knows about a control frame before the frame gets a FrameID.
type frameWork struct {
	done      bool
	kind      frameKind
	uncertain bool
	failed    bool
	// The field left is true if a backtrace leaves out the frame. The backtrace then shows the frame of a rescue or
	// ensure in the same code instead.
	left bool
	// young is true if the frame's method was found through an environment on the heap that is not old yet (old: it has
	// survived several collections). fleeting is true if the frame depends on an environment on the VM stack that was
	// not read together with the frames. Such a frame is not cached.
	young, fleeting bool
	pos             uint32
	code            *iseq
	method          *methodEntry
	// envs and envsTo are indexes in Decoder.seen. The frame depends on the environments from envs up to, but not
	// including, envsTo.
	envs, envsTo int32
}

// classify finds the code and the method of every control frame. If memory is missing, the caller fetches it and calls
// classify again. Frames that are done keep their results.
func (d *classifier) classify(raw *Stack) error {
	var missing error
	d.pass++
	for i := range d.work {
		w := &d.work[i]
		if w.done {
			continue
		}
		*w = frameWork{envs: int32(len(d.seen))}
		d.youngEnv, d.fleeting = false, false
		err := d.classifyFrame(raw, i, w)
		w.young, w.fleeting, w.envsTo = d.youngEnv, d.fleeting, int32(len(d.seen))
		switch {
		case err == nil:
			w.done = true
		case err == view.ErrMissing:
			missing = err
		case i == 0 && (raw.Running || raw.Partial):
			// The innermost frame may be half written, because the thread runs or the stack is partial. So it is left
			// out.
			*w = frameWork{done: true}
			d.info.UncertainTop = true
		default:
			return fmt.Errorf("%w: control frame %d at %s: %w", ErrTorn, i, raw.CFP+attach.Address(i*d.o.FrameSize), err)
		}
	}
	return missing
}

func (d *classifier) classifyFrame(raw *Stack, i int, w *frameWork) error {
	f := raw.Frames[i*d.o.FrameSize : (i+1)*d.o.FrameSize]
	pc, code, ep := view.U64(f[FramePC:]), attach.Address(view.U64(f[FrameISeq:])), attach.Address(view.U64(f[FrameEP:]))
	if d.target.ZJITFrames {
		var err error
		if pc, code, err = d.jitFrame(raw, i, f, pc, code); err != nil {
			return err
		}
	}
	switch {
	case code == 0:
		return d.classifyC(raw, ep, w)
	case pc == 0: // an IFUNC, or a frame just pushed while Ruby boots
		return nil
	}
	q, err := d.iseqAt(code)
	if err != nil {
		return err
	}
	pos, ok := q.holds(pc)
	if !ok && i != 0 && !q.isFresh(&d.loader) {
		// The pc is not in the cached code, so other code is at this address now.
		q.drop(&d.loader)
		if q, err = d.iseqAt(code); err != nil {
			return err
		}
		pos, ok = q.holds(pc)
	}
	switch {
	case ok:
	case i != 0:
		return heap.WrongType(code, "code that its pc points into", heap.TypeMoved)
	default:
		// The pc is not in the frame's code, for one of two possible reasons. A JIT writes the pc only before calls, so
		// this pc may come from an earlier frame. Or other code has replaced the code at this address. To find out,
		// call suspect, so that check compares the code with memory.
		d.suspect(&q.validity, q)
		pos, w.uncertain = posFirstLine, true
		d.info.UncertainTop = true
	}
	w.kind, w.code, w.pos = frameRuby, q, pos
	if d.rules.likeC(q) {
		w.kind = frameLikeC
	}
	if ok && i == 0 && raw.Live() && w.kind == frameRuby {
		if w.uncertain, err = d.compiledNow(q); err != nil {
			return err
		}
		if w.uncertain {
			w.pos = posFirstLine
		}
	}
	if d.rules.dummyCode {
		e, err := d.envAt(raw, ep)
		if err != nil {
			return err
		}
		if e.flags&d.o.magicMask == d.o.magicDummy {
			w.pos = posFirstLine
		}
	}
	if q.label.qualify || w.kind == frameLikeC {
		w.method, err = d.methodOf(raw, ep, code, q.label.qualify)
		if err == nil && w.method == nil && q.typ == iseqMethod {
			err = heap.WrongType(ep, "environment of a method", heap.NotHeap)
		}
		if err != nil && (raw.Again || i == 0 && (raw.Running || raw.Partial)) {
			return err
		}
		// If the method cannot be read, the frame gets the name of its code.
		w.failed, err = d.tolerate(err)
		return err
	}
	return nil
}

func (d *classifier) classifyC(raw *Stack, ep attach.Address, w *frameWork) error {
	e, err := d.envAt(raw, ep)
	if err != nil {
		return err
	}
	if e.flags&d.o.magicMask != d.o.magicCFunc {
		return nil // the bottom of a stack, or the place to which a C function returns
	}
	w.kind = frameC
	w.method, err = d.methodOf(raw, ep, 0, true)
	if err != nil {
		return err
	}
	if w.method == nil {
		return heap.WrongType(ep, "environment of a C function", heap.TypeMoved)
	}
	return nil
}

// jitFrame returns the iseq and the pc of the control frame f. ZJIT of Ruby's head may keep them in another place
// (docs/internals/code.md#jits).
func (d *classifier) jitFrame(raw *Stack, i int, f []byte, pc uint64, code attach.Address) (uint64, attach.Address, error) {
	ret := view.U64(f[d.o.FrameJIT:])
	switch {
	case ret == 0:
		return pc, code, nil
	case ret == jitReturnC:
		return 0, 0, nil
	}
	var at attach.Address
	if i < len(raw.JIT) {
		at = raw.JIT[i]
	} else {
		w, err := d.view.Word(attach.Address(ret - 8))
		if err != nil {
			return 0, 0, err
		}
		at = attach.Address(w)
	}
	b, err := d.view.Bytes(at, JITFrameISeq+8)
	if err != nil {
		return 0, 0, err
	}
	return view.U64(b[jitFramePC:]), attach.Address(view.U64(b[JITFrameISeq:])), nil
}

// CFrame reports whether a control frame has no Ruby code. It may be a C function's frame or an empty frame.
func (d *classifier) CFrame(f []byte) bool {
	if d.target.ZJITFrames {
		if ret := view.U64(f[d.o.FrameJIT:]); ret != 0 {
			return ret == jitReturnC
		}
	}
	return view.U64(f[FrameISeq:]) == 0
}

// Arguments returns the address and number of a C function's arguments. function is the function's control frame, and
// caller the frame of the Ruby code that called it. The caller has pushed the receiver and then the arguments. So
// callers of Arguments must check that the word at at-8 is the receiver. If it is not, there are no arguments at this
// address. ok is false if there cannot be any (docs/internals/stacks.md#arguments-of-c-functions).
func (d *classifier) Arguments(function, caller []byte) (at attach.Address, n int, ok bool) {
	if !d.CFrame(function) || d.CFrame(caller) || view.U64(caller[FramePC:]) == 0 || d.target.ZJITFrames && view.U64(caller[d.o.FrameJIT:]) != 0 {
		return 0, 0, false
	}
	sp, env := view.U64(caller[FrameSP:]), view.U64(function[FrameEP:])-envBelow
	if sp == 0 || sp&7 != 0 || env <= sp || (env-sp)/8-1 > maxArguments {
		return 0, 0, false
	}
	return attach.Address(sp + 8), int((env-sp)/8 - 1), true
}

// JITSlots appends one address to buf for each control frame: the address of the slot that points to its JIT frame, or
// zero. On head with ZJIT the caller reads these slots together with the frames.
func (d *classifier) JITSlots(frames []byte, buf []attach.Address) []attach.Address {
	for ; len(frames) >= d.o.FrameSize && d.target.ZJITFrames; frames = frames[d.o.FrameSize:] {
		slot := attach.Address(0)
		if ret := view.U64(frames[d.o.FrameJIT:]); ret > jitReturnC {
			slot = attach.Address(ret - 8)
		}
		buf = append(buf, slot)
	}
	return buf
}
