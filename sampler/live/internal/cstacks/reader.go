// Package cstacks reads the native (C) stacks of a process's threads. It can read the stacks of all threads once. It
// can also read, again and again, the stacks of threads that stay in the same call (docs/reference/native.md).
package cstacks

import (
	"errors"

	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/redact"
)

// tries limits how often ddtop tries to read a thread's native stack if the thread runs during the reading. A later try
// can succeed, because only the first one opens files, which takes long.
const tries = 4

// Errors that say why a stack has no native frames.
var (
	// ErrMoves means that a thread ran while its native stack was read.
	ErrMoves = errors.New("the thread runs too often to read them")
	// ErrRubyMoved means that a thread's Ruby frames have changed since the sample was taken. So its native stack
	// cannot be added to the sample.
	ErrRubyMoved = errors.New("the thread has moved on since its Ruby frames were read")
	// ErrRubyUnread means that a core file lacks Ruby frames of a thread.
	ErrRubyUnread = errors.New("the core file lacks the thread's Ruby frames")
)

// Subject is the process whose stacks are read.
type Subject struct {
	Process native.Process
	PID     int
	// Dumped returns the registers of the threads in a core file. It is nil for a live process.
	Dumped native.Source
	// VMPath is the file that has Ruby's VM. Machine is the process's machine type. JIT is true if Ruby compiles code.
	VMPath, Machine string
	JIT             bool
	Names           *redact.Redactor
	// Debug downloads debug files that the machine lacks. It is nil if the user does not want downloads.
	Debug *debuginfod.Client
	// Controls reads the control frames of a thread again. See ruby.Reader.Controls.
	Controls func(id sampler.ThreadID) (frames []native.Control, whole, same bool)
}

// Reader reads native stacks. The first call of Prepare opens what the Reader needs. Only one goroutine may use it at a
// time.
type Reader struct {
	tasks *kernel.Tasks
	space *native.Space
	ruby  *native.Ruby
	of    Subject

	// source returns the registers of threads. For a live process, source and the field registers are the same object.
	// For a core file, source is Subject.Dumped, and the field registers is nil.
	source    native.Source
	registers *Registers
}

// Prepare opens everything that reading native stacks needs. Later calls only read the mappings again. Call Prepare
// before each round over the threads.
func (r *Reader) Prepare(of Subject) (err error) {
	r.of = of
	if of.Machine != "x86_64" {
		return native.ErrMachine
	}
	if r.space != nil {
		if r.registers != nil {
			r.registers.Round()
		}
		return r.space.Refresh()
	}
	if r.source = of.Dumped; r.source == nil {
		if r.tasks == nil {
			if r.tasks, err = kernel.OpenTasks(of.PID, sampler.NewDictionary()); err != nil {
				return err
			}
			r.registers = NewRegisters(of.PID, r.tasks)
		}
		r.source = r.registers
	}
	space, err := native.NewSpace(of.Process)
	if err != nil {
		return err
	}
	space.Debug = of.Debug
	if r.ruby, err = space.FindRuby(of.VMPath); err != nil {
		space.Close()
		return err
	}
	r.space = space
	return nil
}

// Readings returns how often the mappings were read: by Prepare, and when an address was in no mapping.
func (r *Reader) Readings() uint64 {
	if r.space == nil {
		return 0
	}
	return r.space.Readings()
}

// Close closes what Prepare has opened. It does not close the process.
func (r *Reader) Close() {
	if r.space != nil {
		r.space.Close()
	}
	if r.tasks != nil {
		r.registers.Close()
		_ = r.tasks.Close() // errors of closing a folder do not matter
	}
}

// chooser is a function that selects the frames of a native stack to show. Its error says why further frames are
// missing.
type chooser func(native.Stack) ([]native.Frame, error)

// Whole reads the whole native stack of a thread that Ruby does not know. Such a thread has no Ruby frames. The results
// have the same meaning as in the method Ruby.
func (r *Reader) Whole(tid int32) (out sampler.NativeStack, ok bool, err error) {
	return r.read(tid, 0, func(stack native.Stack) ([]native.Frame, error) { return stack.Frames, stack.Stopped })
}

// Ruby reads the native stack below the innermost Ruby frame of a thread: the C functions that this frame has called.
// ok is false if the thread runs or has ended. err is not nil if the kernel does not allow ddtop to read registers.
// turns is how often the thread had got a CPU when the caller last read this number. If the number has changed, the
// thread has run since, and ok is false. If turns is zero, this is not checked.
func (r *Reader) Ruby(id sampler.ThreadID, tid int32, turns int64) (out sampler.NativeStack, ok bool, err error) {
	return r.read(tid, turns, func(stack native.Stack) ([]native.Frame, error) {
		frames, whole, same := r.of.Controls(id)
		switch {
		case !same && r.of.Dumped != nil:
			return nil, ErrRubyUnread
		case !same:
			return nil, ErrRubyMoved
		}
		return r.ruby.Below(stack, frames, whole, r.of.JIT)
	})
}

// Copied unwinds the copy of a native stack down to the Ruby frames. The kernel has copied the stack and the registers
// while the thread ran. The parameter from is the address of the copied stack in the target. control has the Ruby
// frames of the same instant. If there are no frames, the error says why.
func (r *Reader) Copied(regs native.Registers, from uint64, copied []byte, control []native.Control,
	whole bool) (out sampler.NativeStack, err error) {
	frames, err := r.ruby.BelowCopied(r.space.UnwindCopied(regs, from, copied), control, whole, r.of.JIT)
	if err != nil {
		return out, err
	}
	out.Frames = r.copiedNames(frames)
	return out, nil
}

// CopiedWhole is like Copied, but for a thread that Ruby does not know. It returns all frames, because none of them are
// Ruby's.
func (r *Reader) CopiedWhole(regs native.Registers, from uint64, copied []byte) (out sampler.NativeStack) {
	stack := r.space.UnwindCopied(regs, from, copied)
	out.Frames = r.copiedNames(stack.Frames)
	if stack.Stopped != nil {
		out.Missing = r.of.Names.Error(r.withoutName(stack.Stopped))
	}
	return out
}

// copiedNames returns the names of a running thread's stack. In the innermost frame it uses the address of the
// function's first instruction, not the current one. Otherwise almost every sample would be a different stack.
func (r *Reader) copiedNames(frames []native.Frame) []sampler.NativeFrame {
	out := r.names(frames)
	if len(out) > 0 && out[0].Function != 0 {
		out[0].Offset = out[0].Function
	}
	return out
}

// withoutName returns the reason why frames are missing. If the user wants names removed, it replaces the name of a
// file in the reason.
func (r *Reader) withoutName(missing error) error {
	var stop *native.Stop
	if !errors.As(missing, &stop) {
		return missing
	}
	return &native.Stop{Library: r.of.Names.NativeFrame(sampler.NativeFrame{Library: stop.Library}).Library, Err: stop.Err}
}

// names returns frames with their names, for display.
func (r *Reader) names(frames []native.Frame) []sampler.NativeFrame {
	out := r.space.Names(frames)
	for i := range out {
		out[i] = r.of.Names.NativeFrame(out[i])
	}
	return out
}

// read reads a native stack, and choose selects the frames to show. If the thread has run in the meantime, read tries
// again, at most tries times.
func (r *Reader) read(tid int32, turns int64, choose chooser) (out sampler.NativeStack, ok bool, err error) {
	for range tries {
		regs, at, stands, err := r.source.Registers(tid)
		if err != nil || !stands || turns != 0 && at.Turns != turns {
			return out, false, unlessGone(err)
		}
		frames, missing := choose(r.space.Unwind(regs))
		var inside string
		var insideErr error
		if r.registers != nil && !r.registers.plain {
			inside, insideErr = r.tasks.Inside(tid)
		}
		stays, err := r.source.Stays(tid, at)
		if err != nil {
			return out, false, unlessGone(err)
		}
		if !stays {
			continue
		}
		if out.Kernel = inside; errors.Is(insideErr, kernel.ErrInside) {
			out.KernelMissing = insideErr.Error()
		}
		out.Frames = r.names(frames)
		var stop *native.Stop
		if missing != nil {
			out.Missing = r.of.Names.Error(r.withoutName(missing))
		}
		if r.registers != nil && errors.As(missing, &stop) && stop.Unknown() {
			out.Missing += r.registers.hint()
		}
		return out, true, nil
	}
	return sampler.NativeStack{Missing: ErrMoves.Error()}, true, nil
}

// unlessGone returns err, or nil if err says that a thread has ended.
func unlessGone(err error) error {
	if errors.Is(err, kernel.ErrGone) {
		return nil
	}
	return err
}
