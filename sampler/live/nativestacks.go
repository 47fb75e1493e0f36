package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/native"
)

const (
	// maxNativeStacks bounds the threads whose native stacks are read at once.
	maxNativeStacks = 4096
	// nativeTries is how often a thread's native stack is read if the thread moves meanwhile. The first reading opens
	// files, so it takes far longer than the next one.
	nativeTries = 4
)

// errMoves means that a thread ran while its native stack was read.
var errMoves = errors.New("the thread runs too often to read them")

// nativeReader reads native stacks. Its parts are made when they are first needed, and used by one work of the lane.
type nativeReader struct {
	space *native.Space
	ruby  *native.Ruby
}

// standing gives the registers that every user gets who may read the memory: stack pointer and program counter.
type standing struct{ tasks *kernel.Tasks }

// Registers asks the kernel where a thread stands (kernel.Tasks.Standing).
func (s standing) Registers(tid int32) (native.Registers, native.Moment, bool, error) {
	x, ok, err := s.tasks.Standing(tid)
	return native.At(x.SP, x.PC), native.Moment{Turns: x.Turns, Call: x.Line}, ok, err
}

// NativeStacks are native stacks of a process's threads.
type NativeStacks struct {
	// Ruby has the native stacks below the innermost Ruby frames of Ruby's threads. Others has the native stacks of
	// other threads, by TID.
	Ruby   map[sampler.ThreadID]sampler.NativeStack
	Others map[int32]sampler.NativeStack
	// Locks are the locks of C code that threads wait for. It is nil if none do.
	Locks *sampler.NativeLocks
}

// NativeStacks reads the native stacks of the threads of a sample that Once took, and of others. Threads that run are
// left out. The error says why there are none at all.
func (s *Source) NativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return result(ctx, &s.reading, func() (NativeStacks, error) { return s.nativeStacks(ctx, sample, others) }, nil)
}

func (s *sampling) nativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	out := NativeStacks{Ruby: make(map[sampler.ThreadID]sampler.NativeStack),
		Others: make(map[int32]sampler.NativeStack)}
	var err error
	if out.Locks, err = s.nativeLocks(ctx, sample); err != nil {
		return out, err
	}
	if err := s.native.prepare(&s.subject); err != nil {
		return out, err
	}
	left := maxNativeStacks
	for i := range sample.Threads {
		t := &sample.Threads[i]
		if t.TID == 0 || left == 0 || ctx.Err() != nil {
			continue
		}
		left--
		x, ok, err := s.nativeStack(t.TID, func(stack native.Stack) ([]native.Frame, error) {
			return s.belowRuby(t.ID, stack)
		})
		if err != nil {
			return out, err
		}
		if ok {
			out.Ruby[t.ID] = x
		}
	}
	for _, tid := range others {
		if left == 0 || ctx.Err() != nil {
			break
		}
		left--
		x, ok, err := s.nativeStack(tid, func(stack native.Stack) ([]native.Frame, error) {
			return stack.Frames, stack.Stopped
		})
		if err != nil {
			return out, err
		}
		if ok {
			out.Others[tid] = x
		}
	}
	return out, nil
}

// prepare opens what native stacks need, or reads the mappings again.
func (n *nativeReader) prepare(s *subject) (err error) {
	if s.info.Machine != "x86_64" {
		return native.ErrMachine
	}
	if n.space != nil {
		return n.space.Refresh()
	}
	space, err := native.NewSpace(s.proc)
	if err != nil {
		return err
	}
	if n.ruby, err = space.FindRuby(s.vmPath); err != nil {
		space.Close()
		return err
	}
	n.space = space
	return nil
}

func (n *nativeReader) close() {
	if n.space != nil {
		n.space.Close()
	}
}

// errRubyMoved means that a thread has other Ruby frames than in the sample.
var errRubyMoved = errors.New("the thread has moved on since its Ruby frames were read")

// belowRuby returns the frames of a native stack that are below the thread's innermost Ruby frame.
func (s *sampling) belowRuby(id sampler.ThreadID, stack native.Stack) ([]native.Frame, error) {
	frames, whole, same := s.reader.Controls(id)
	if !same {
		return nil, errRubyMoved
	}
	control := make([]native.Control, len(frames))
	for i, f := range frames {
		control[i] = native.Control(f)
	}
	return s.native.ruby.Below(stack, control, whole, s.info.JIT != "")
}

// chooser returns the frames of a stack that are shown, and why others are missing.
type chooser func(native.Stack) ([]native.Frame, error)

// nativeStack reads the native stack of a thread. ok is false if it runs or has ended. The error says that the kernel
// does not tell. What choose reads counts only if the thread has not moved until then.
func (s *sampling) nativeStack(tid int32, choose chooser) (out sampler.NativeStack, ok bool, err error) {
	var registers native.Source = standing{s.tasks}
	for range nativeTries {
		regs, before, stands, err := registers.Registers(tid)
		if err != nil || !stands {
			return out, false, unlessGone(err)
		}
		frames, missing := choose(s.native.space.Unwind(regs))
		_, after, stands, err := registers.Registers(tid)
		if err != nil {
			return out, false, unlessGone(err)
		}
		if !stands || before != after {
			continue
		}
		out.Frames = s.native.space.Names(frames)
		for i := range out.Frames {
			out.Frames[i] = s.names.NativeFrame(out.Frames[i])
		}
		var stop *native.Stop
		if errors.As(missing, &stop) {
			missing = &native.Stop{Library: s.names.NativeFrame(sampler.NativeFrame{Library: stop.Library}).Library,
				Err: stop.Err}
		}
		if missing != nil {
			out.Missing = s.names.Error(missing)
		}
		return out, true, nil
	}
	return sampler.NativeStack{Missing: errMoves.Error()}, true, nil
}

// unlessGone is an error unless it says that a thread has ended.
func unlessGone(err error) error {
	if errors.Is(err, kernel.ErrGone) {
		return nil
	}
	return err
}
