package native

import (
	"errors"
	"fmt"
)

// maxFrames limits how many frames one native stack has. Of 70 tested ways to block, the deepest stack has 377 frames.
const maxFrames = 1024

// ErrMachine is returned if ddtop cannot unwind stacks on the process's machine yet.
var ErrMachine = errors.New("native stacks are read on x86_64 only")

// errLoop means that a caller's frame is not further outward on the stack than the frame of the called function. If
// unwinding continued, it might never end.
var errLoop = errors.New("it leads back")

// Frame is one function of a native stack.
type Frame struct {
	// PC is the address where the function will continue. inside is an address in the instruction before PC.
	PC, inside uint64
	module     *module
	// function is the address in the file where the function begins. It is zero if no unwind table has the function.
	function uint64
}

// Stack is a native stack, innermost frame first.
type Stack struct {
	Frames []Frame
	// Stopped says why the stack does not reach the thread's start. It is nil if the stack reaches it.
	Stopped error
}

// Stop says where and why unwinding ended before the thread's start.
type Stop struct {
	// Library is the file of the last function. It is empty if the file is not known.
	Library string
	Err     error
}

// Unwrap returns the cause.
func (e *Stop) Unwrap() error { return e.Err }

// Unknown reports whether unwinding ended because the value of a register is not known.
func (e *Stop) Unknown() bool {
	var unknown unknownRegister
	return errors.As(e.Err, &unknown)
}

// Error returns the cause in words, and the file if it is known.
func (e *Stop) Error() string {
	var unknown unknownRegister
	switch {
	case errors.As(e.Err, &unknown):
		return fmt.Sprintf("%s finds its frames by register %s, which the kernel does not tell", e.Library,
			registerNames[unknown])
	case e.Library != "":
		return e.Library + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Unwind follows a stack outward from its innermost frame, whose registers are regs. It stops when it needs a register
// that is not known.
func (s *Space) Unwind(regs Registers) Stack { return s.unwind(regs, &stackMemory{space: s}) }

// UnwindCopied is like Unwind, but for a thread that runs. It uses a copy of the thread's stack. copied has the copied
// bytes, which begin at the address from. No other part of the stack is read.
func (s *Space) UnwindCopied(regs Registers, from uint64, copied []byte) Stack {
	return s.unwind(regs, &stackMemory{space: s, pieces: []stackPart{{from, copied}}, copied: true})
}

func (s *Space) unwind(regs Registers, stack *stackMemory) Stack {
	s.executed = 0
	var out Stack
	// also true for a frame that a signal interrupted, because its instruction at PC was not executed yet
	innermost := true
	for len(out.Frames) < maxFrames {
		f := Frame{PC: regs.PC(), inside: regs.PC()}
		if f.PC == 0 {
			return out // the first function of a fiber has no caller
		}
		if !innermost {
			f.inside--
		}
		m, err := s.moduleAt(f.inside)
		if m == nil {
			out.Stopped = &Stop{Err: err}
			return out
		}
		f.module = m
		if err == nil {
			var r *row
			if r, err = s.rowAt(m, f.inside); err == nil {
				f.function = r.function
				out.Frames = append(out.Frames, f)
				innermost = r.signal
				done, err := r.step(&regs, stack)
				if done {
					return out
				}
				if err != nil {
					out.Stopped = &Stop{m.short, err}
					return out
				}
				continue
			}
		}
		out.Frames = append(out.Frames, f)
		out.Stopped = &Stop{m.short, err}
		return out
	}
	out.Stopped = &Stop{Err: fmt.Errorf("the stack has more than %d frames", maxFrames)}
	return out
}

// step turns the registers of a frame into the registers of its caller, with a row of the unwind table. done is true if
// the frame has no caller.
func (r *row) step(regs *Registers, stack *stackMemory) (done bool, err error) {
	if r.registers[regReturn].kind == ruleLost {
		return true, nil
	}
	frame, err := r.frame.value(regs, stack, 0)
	if err != nil {
		return false, err
	}
	var next Registers
	for n := range r.registers {
		switch rule := &r.registers[n]; {
		case rule.kind == ruleSame, rule.kind == ruleNone && preserved>>n&1 != 0:
			if regs.known>>n&1 != 0 {
				next.set(n, regs.values[n])
			}
		case rule.kind == ruleNone, rule.kind == ruleLost:
		default:
			if value, err := rule.value(regs, stack, frame); err == nil {
				next.set(n, value)
			} else if n == regReturn {
				return false, err
			}
		}
	}
	if r.registers[regRSP].kind == ruleNone {
		next.set(regRSP, frame)
	}
	if next.known>>regReturn&1 == 0 {
		return false, fmt.Errorf("%w: no rule for the return address", errTable)
	}
	// The caller's frame must be further outward on the stack. Only the return from a signal handler may lead to
	// another stack.
	if !r.signal && (next.SP() <= regs.SP() || next.known>>regRSP&1 == 0) {
		return false, errLoop
	}
	*regs = next
	return false, nil
}

// value computes the value that a register has in the caller, with a rule of the unwind table. frame is the frame's
// address (CFA).
func (r *rule) value(regs *Registers, stack *stackMemory, frame uint64) (uint64, error) {
	switch r.kind {
	case ruleSaved:
		return stack.word(frame + uint64(r.offset))
	case ruleAt:
		return frame + uint64(r.offset), nil
	case ruleRegister:
		v, err := regs.get(r.register)
		return v + uint64(r.offset), err
	case ruleSavedExpression:
		at, err := evaluate(r.expression, regs, stack, frame)
		if err != nil {
			return 0, err
		}
		return stack.word(at)
	case ruleExpression:
		return evaluate(r.expression, regs, stack, frame)
	}
	return 0, fmt.Errorf("%w: no rule", errTable)
}
