package native

import (
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// TestUnwindCopied: a copied stack is unwound from the copy alone, with all registers. Unwinding stops at the end of
// the copy. It must not read the thread's memory, which has changed since the copy.
func TestUnwindCopied(t *testing.T) {
	const pc = testBias + testFunction + 0x10
	table, err := newTestTable(testTable(cfaDefine, regRBP, 16))
	if err != nil {
		t.Fatal(err)
	}
	live := slices.Repeat(le(8, pc), 64) // if live memory were read, the stack would have more frames
	s := newFake(t, table, live)
	var registers [NumRegisters]uint64
	registers[StackPointer], registers[regRBP], registers[NumRegisters-1] = testStack+0x100, testStack+0x110, pc
	const from = testStack + 0x100 - 128
	copied := make([]byte, 128+0x20+8)
	copy(copied[128+0x18:], le(8, pc+1)) // the return address, below the frame's address
	got := s.UnwindCopied(AllRegisters(registers), from, copied)
	if len(got.Frames) != 2 || got.Frames[1].PC != pc+1 || got.Frames[0].PC != pc {
		t.Errorf("%+v", got)
	}
	for _, short := range [][]byte{copied[:128+0x18], nil} {
		got := s.UnwindCopied(AllRegisters(registers), from, short)
		if len(got.Frames) != 1 || !errors.Is(got.Stopped, errCopied) {
			t.Errorf("%+v", got)
		}
	}
}

// TestBelowCopied: BelowCopied returns the C functions of a copied stack only if the copy reaches the interpreter. A
// shorter copy cannot be compared with Ruby's frames.
func TestBelowCopied(t *testing.T) {
	ruby, other := new(module), new(module)
	r := &Ruby{module: ruby, calls: map[uint64]bool{0x120: true}, loop: -1, loops: []loop{
		{calls: map[uint64]bool{0x204: true}, checks: map[uint64]bool{0x130: true},
			leaves: map[uint64]bool{0x210: true}}}}
	ruby.Module = &attach.Module{Bias: testBias}
	deflate := Frame{PC: 0x9000, module: other, function: 0x8000}
	caller := Frame{PC: testBias + 0x120, module: ruby, function: 0x100}
	entering := Frame{PC: testBias + 0x140, module: ruby, function: 0x100}
	loop := Frame{PC: testBias + 0x180, module: ruby, function: 0x180}
	exec := Frame{PC: testBias + 0x204, module: ruby, function: 0x200}
	returned := Frame{PC: testBias + 0x130, module: ruby, function: 0x100}
	leaving := Frame{PC: testBias + 0x210, module: ruby, function: 0x200}
	control := []Control{{C: true}, {Finish: true}}
	behind := Stack{Frames: []Frame{deflate, returned, loop, exec}}
	if _, err := r.BelowCopied(behind, control, true, false); !errors.Is(err, ErrUnconfirmed) || r.loop >= 0 {
		t.Errorf("a check confirms loop %d: %v", r.loop, err)
	}
	r.loop = 0
	for name, c := range map[string]struct {
		frames  []Frame
		stopped error
		jit     bool
		want    int
		err     error
	}{
		"to the interpreter":     {[]Frame{deflate, caller, loop, exec}, errCopied, false, 1, nil},
		"behind a C function":    {[]Frame{deflate, returned, loop, exec}, errCopied, false, 1, nil},
		"not to the interpreter": {[]Frame{deflate, caller}, errCopied, false, 0, ErrShort},
		"not to Ruby":            {[]Frame{deflate}, errCopied, false, 0, errCopied},
		"a method that is Ruby":  {[]Frame{deflate, caller, loop, exec, entering}, errCopied, false, 1, nil},
		"a call half done":       {[]Frame{deflate, loop, exec}, errCopied, false, 0, ErrMisfit},
		"up to a JIT's code":     {[]Frame{deflate}, errJIT, true, 1, nil},
	} {
		got, err := r.BelowCopied(Stack{Frames: c.frames, Stopped: c.stopped}, control, true, c.jit)
		if len(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d frames, %v", name, len(got), err)
		}
	}
	// The exception has left all control frames up to the entry of the interpreter. These control frames belong to C
	// functions.
	left := []Control{{C: true}, {C: true}, {Finish: true}, {C: true}, {Finish: true}}
	stack := Stack{Frames: []Frame{deflate, leaving, caller, loop, exec}}
	if got, err := r.BelowCopied(stack, left, true, false); len(got) != 1 || err != nil {
		t.Errorf("an exception: %d frames, %v", len(got), err)
	}
	for _, other := range [][]Control{left[:4], append(left, Control{C: true})} {
		if _, err := r.BelowCopied(stack, other, true, false); !errors.Is(err, ErrMisfit) {
			t.Errorf("an exception in %v: %v", other, err)
		}
	}
}
