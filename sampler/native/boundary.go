package native

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/attach"
)

const (
	// maxInterpreters limits how many functions of Ruby's file are candidates for the interpreter's loop, the function
	// that runs Ruby's instructions. leastJumps is the least number of indirect jumps that a candidate must have. The
	// loop has a jump for each instruction: 130 and more on 2.7 to 3.4. Few other functions of Ruby have so many.
	maxInterpreters, leastJumps = 8, 64
	// beforeCall is how many bytes before a call ddtop searches for the instruction that loads the call's argument.
	// These are about 12 instructions.
	beforeCall = 64
)

// Ruby finds where Ruby's own frames begin on native stacks. It needs no symbols. From the code it derives which
// functions call C functions, and which one is the interpreter's loop
// (docs/reference/native.md#where-rubys-frames-begin).
type Ruby struct {
	module *module
	// calls are the return addresses, in the file, of all calls that run a method's C function. If such an address is
	// on a stack, a C function was called. The name of the calling function alone would not prove this, because these
	// functions also enter the interpreter.
	calls map[uint64]bool
	// loops are the functions that may be the interpreter's loop.
	loops []loop
	// loop is the index, in loops, of the function that has proved to be the interpreter's loop, because a stack fits
	// only with it. Before such a stack is found, loop is -1.
	loop int
}

// loop is a function that may be the interpreter's loop. The keys of its maps are addresses in the file.
type loop struct {
	// calls are the return addresses of the calls of this function.
	calls map[uint64]bool
	// checks are return addresses of checks for interrupts, in the functions that call C functions. When a thread has
	// returned from a C function, it may give up the GVL in such a check. The C function's control frame is then still
	// on the stack (vm_pop_frame, vm_insnhelper.c, 2.7 to 3.4).
	checks map[uint64]bool
	// leaves are return addresses of checks for interrupts in the functions that call the loop. A thread can be in such
	// a check while it removes the control frames of methods that an exception has left (vm_exec, vm.c). The native
	// frames of these methods and of the loop are then already gone.
	leaves map[uint64]bool
}

// ErrNoRuby means that Ruby's own functions were not recognized.
var ErrNoRuby = errors.New("the functions of this Ruby that native stacks begin below are not recognized")

// FindRuby finds the functions of the Ruby in a mapped file: libruby, or the program itself.
func (s *Space) FindRuby(path string) (*Ruby, error) {
	i := slices.IndexFunc(s.mappings, func(m attach.Mapping) bool { return m.Exec && m.Path == path })
	if i < 0 {
		return nil, ErrNoRuby
	}
	m, err := s.moduleAt(uint64(s.mappings[i].Start))
	if err != nil {
		return nil, err
	}
	code, err := m.Code()
	if err != nil {
		return nil, err
	}
	r := &Ruby{module: m, calls: make(map[uint64]bool), loop: -1}
	jumps := make(map[uint64]int)
	for _, c := range code {
		if !c.Linkers {
			r.findCFunctionCalls(&c)
			m.table.countJumps(&c, jumps)
		}
	}
	places := slices.SortedFunc(maps.Keys(jumps), func(a, b uint64) int {
		return cmp.Or(jumps[b]-jumps[a], cmp.Compare(a, b))
	})
	places = slices.DeleteFunc(places, func(p uint64) bool { return jumps[p] < leastJumps })
	for _, place := range places[:min(len(places), maxInterpreters)] {
		calls := make(map[uint64]bool)
		for _, c := range code {
			findCalls(&c, place, calls)
		}
		if len(calls) > 0 {
			checks, leaves := r.findChecks(code, place, calls)
			r.loops = append(r.loops, loop{calls, checks, leaves})
		}
	}
	if len(r.calls) == 0 || len(r.loops) == 0 {
		return nil, ErrNoRuby
	}
	return r, nil
}

// findCFunctionCalls finds the calls that run methods written in C. Such a call is an indirect call through the
// method's definition: call *16(definition). The fourth argument is 8(definition), the C function
// (vm_call_cfunc_with_frame and vm_call0_body, vm_insnhelper.c and vm_eval.c).
func (r *Ruby) findCFunctionCalls(c *attach.CodeSection) {
	const size = 3
	for at := 0; ; at++ {
		i := bytes.IndexByte(c.Bytes[at:], 0xff)
		if i < 0 || at+i+size > len(c.Bytes) {
			return
		}
		at += i
		mode := c.Bytes[at+1]
		if mode&0xf8 != 0x50 || mode&7 == 4 || c.Bytes[at+2] != 16 {
			continue
		}
		load := []byte{0x48, 0x8b, 0x48 | mode&7, 8} // mov 8(register), %rcx
		from := at
		if at > 0 && c.Bytes[at-1] == 0x41 { // the register is one of r8 to r15
			load[0] |= 1
			from--
		}
		if bytes.Contains(c.Bytes[max(from-beforeCall, 0):from], load) {
			r.calls[c.Addr+uint64(at)+size] = true
		}
	}
}

// start returns the beginning of the function that holds an address. If no function holds the address, start returns
// the beginning of the function before it.
func (t *table) start(addr uint64) (function uint64, ok bool) {
	i := t.before(addr)
	if i == 0 {
		return 0, false
	}
	function, _ = t.entry(i - 1)
	return function, true
}

// countJumps counts the indirect jumps of each function: jumps to an address in a register or in memory.
func (t *table) countJumps(c *attach.CodeSection, jumps map[uint64]int) {
	for at := 0; ; at++ {
		i := bytes.IndexByte(c.Bytes[at:], 0xff)
		if i < 0 || at+i+1 >= len(c.Bytes) {
			return
		}
		at += i
		if c.Bytes[at+1]>>3&7 != 4 { // jmp *operand
			continue
		}
		if function, ok := t.start(c.Addr + uint64(at)); ok {
			jumps[function]++
		}
	}
}

// findCalls finds the return addresses of all direct calls of a function.
func findCalls(c *attach.CodeSection, function uint64, calls map[uint64]bool) {
	eachDirectCall(c.Bytes, c.Addr, func(behind, callee uint64) {
		if callee == function {
			calls[behind] = true
		}
	})
}

// findChecks finds the checks for interrupts. A check is a call of a function that the interpreter's loop calls, too.
// The result checks has the checks in functions that call C functions. The result leaves has the checks in functions
// that call the loop, or in functions that these call (3.4).
func (r *Ruby) findChecks(code []attach.CodeSection, loop uint64,
	calls map[uint64]bool) (checks, leaves map[uint64]bool) {
	t := r.module.table
	shared, check := make(map[uint64]bool), make(map[uint64]bool)
	t.eachCall(code, loop, func(_, callee uint64) { shared[callee] = true })
	among := func(places map[uint64]bool, wanted func(callee uint64) bool) map[uint64]bool {
		found, done := make(map[uint64]bool), make(map[uint64]bool)
		for place := range places {
			function, ok := t.start(place)
			if !ok || done[function] {
				continue
			}
			done[function] = true
			t.eachCall(code, function, func(behind, callee uint64) {
				if wanted(callee) {
					found[behind] = true
				}
			})
		}
		return found
	}
	checks = among(r.calls, func(callee uint64) bool {
		check[callee] = check[callee] || shared[callee]
		return shared[callee]
	})
	leaves = among(calls, func(callee uint64) bool {
		found := check[callee]
		t.eachCall(code, callee, func(_, inner uint64) { found = found || check[inner] })
		return found && callee != loop
	})
	return checks, leaves
}

// eachCall calls f for each direct call in a function, with the return address and the called function.
func (t *table) eachCall(code []attach.CodeSection, function uint64, f func(behind, callee uint64)) {
	d, err := t.find(function)
	if err != nil {
		return
	}
	for _, c := range code {
		if function < c.Addr || function-c.Addr >= uint64(len(c.Bytes)) {
			continue
		}
		own := c.Bytes[function-c.Addr:]
		own = own[:min(uint64(len(own)), d.size)]
		eachDirectCall(own, function, f)
	}
}

// eachDirectCall calls f for each direct call in code that begins at an address.
func eachDirectCall(code []byte, addr uint64, f func(behind, callee uint64)) {
	const size = 5
	for at := 0; ; at++ {
		i := bytes.IndexByte(code[at:], 0xe8)
		if i < 0 || at+i+size > len(code) {
			return
		}
		at += i
		behind := addr + uint64(at) + size
		f(behind, behind+uint64(int32(binary.LittleEndian.Uint32(code[at+1:]))))
	}
}

// Control describes one of Ruby's control frames (Ruby's own record of an active method) by the calls that it leaves on
// a native stack.
type Control struct {
	// C is true for a C function's frame. Finish is true if the interpreter was entered from C with this frame.
	C, Finish bool
}

// mark is an event, such as the call of a C function. It leaves a trace on a native stack and also in Ruby's control
// frames. If both have the same marks, they belong together.
type mark uint8

const (
	markCall  mark = iota // a C function was called for a method
	markEnter             // the interpreter was entered
	markLeave             // an exception leaves the interpreter
)

func controlMarks(frames []Control) (marks []mark) {
	for _, f := range frames {
		if f.C {
			marks = append(marks, markCall)
		}
		if f.Finish {
			marks = append(marks, markEnter)
		}
	}
	return marks
}

// marks returns the marks of a native stack. It assumes that loops[loop] is the interpreter's loop. boundary is the
// number of frames inward of Ruby's innermost frame, which are the C functions that Ruby called. If the parameter
// returned is true, a check for interrupts counts as a call, too. At such a check, the thread has returned from C
// functions, or an exception has left them, but their control frames are still there.
func (r *Ruby) marks(stack *Stack, loop int, returned bool) (marks []mark, boundary int) {
	for i, f := range stack.Frames {
		if f.module != r.module {
			continue
		}
		m := markCall
		switch at, l := f.PC-uint64(r.module.Bias), &r.loops[loop]; {
		case l.calls[at]:
			m = markEnter
		case returned && len(marks) == 0 && l.leaves[at]:
			m = markLeave
		case !r.calls[at] && !(returned && l.checks[at]):
			continue
		}
		if len(marks) == 0 {
			boundary = i
			if m == markEnter {
				boundary = max(i-1, 0) // frame i has called frame i-1, the loop
			}
		}
		marks = append(marks, m)
	}
	return marks, boundary
}

// ErrMisfit means that a native stack does not belong to the control frames, or that ddtop does not understand the
// stack.
var ErrMisfit = errors.New("they do not fit Ruby's frames")

// ErrUnconfirmed means that a native stack fits Ruby's frames only if a certain function is the interpreter's loop. No
// other stack has confirmed yet that this function is the loop.
var ErrUnconfirmed = errors.New("no other stack has confirmed yet which function is Ruby's interpreter")

// Below returns the frames of a native stack that are inward of Ruby's own frames. These are the C functions that Ruby
// has called. The parameter whole is true if control has all control frames of the stack. jit is true if the process
// has a JIT. The error can be ErrMisfit or ErrUnconfirmed. If the native stack is incomplete and does not reach Ruby's
// frames, Below returns all frames of it, and the reason as the error.
func (r *Ruby) Below(stack Stack, control []Control, whole, jit bool) ([]Frame, error) {
	want := controlMarks(control)
	jit = jit && errors.Is(stack.Stopped, errJIT)
	// Some functions check for interrupts without having a control frame. So first compare the stacks without checks.
	// If they do not fit, compare them again with each check as a call. This needs a known interpreter's loop, because
	// such a comparison must not decide which function is the loop.
	for _, returned := range []bool{false, true} {
		for loop := range r.loops {
			if r.loop >= 0 && loop != r.loop {
				continue
			}
			marks, boundary := r.marks(&stack, loop, returned)
			if len(marks) == 0 {
				boundary = len(stack.Frames)
			}
			// A stack without marks proves something only if it is complete, or if it ends at code of a JIT.
			if len(marks) == 0 && !jit && stack.Stopped != nil || !fits(marks, want, jit, stack.Stopped == nil, whole) {
				continue
			}
			if r.loop < 0 && returned {
				return nil, ErrUnconfirmed
			}
			if r.loop < 0 && slices.Contains(marks, markEnter) {
				r.loop = loop
			}
			return stack.Frames[:boundary], nil
		}
	}
	if marks, _ := r.marks(&stack, max(r.loop, 0), false); len(marks) == 0 && stack.Stopped != nil && !jit {
		return stack.Frames, stack.Stopped
	}
	return nil, ErrMisfit
}

// ErrShort means that the copy of a native stack is too short: it does not reach the interpreter. So it cannot be
// compared with Ruby's frames.
var ErrShort = errors.New("the copy does not reach the interpreter")

// BelowCopied is like Below, but for the copied native stack of a thread that ran (UnwindCopied). If the copy does not
// reach the interpreter, it cannot be compared with Ruby's frames, and BelowCopied returns no frames.
func (r *Ruby) BelowCopied(stack Stack, control []Control, whole, jit bool) ([]Frame, error) {
	frames, err := r.Below(stack, control, whole, jit)
	if err != nil {
		return nil, err
	}
	if stack.Stopped == nil || jit && errors.Is(stack.Stopped, errJIT) {
		return frames, nil
	}
	if marks, _ := r.marks(&stack, max(r.loop, 0), false); !slices.Contains(marks, markEnter) {
		return nil, ErrShort
	}
	return frames, nil
}

// fits reports whether a native stack has the same marks as Ruby's control frames. It compares them from the innermost
// to the outermost, until one of the two lists ends. jit is true if the native stack ends at code that a JIT made. This
// code calls C functions directly, and not through the functions that usually call them.
func fits(marks, want []mark, jit, toTheEnd, whole bool) bool {
	if len(marks) > 0 && marks[0] == markLeave {
		// the exception has left the functions of the control frames up to this mark
		i := slices.Index(want, markEnter)
		if i < 0 {
			return false
		}
		marks, want = marks[1:], want[i+1:]
	}
	if n := min(len(marks), len(want)); !slices.Equal(marks[:n], want[:n]) {
		return false
	}
	switch {
	case len(marks) > len(want):
		return !whole
	case jit:
		rest := want[len(marks):]
		return len(rest) > 0 && !(len(rest) > 1 && rest[0] == markCall && rest[1] == markCall)
	case toTheEnd:
		return len(marks) == len(want)
	}
	return true
}
