package native

import (
	"bytes"
	"testing"
)

// FuzzTable: for any unwind tables, reading ends without a panic. If reading finds a row for an address, the row
// belongs to the function that the tables' header names for this address.
func FuzzTable(f *testing.F) {
	header, frames := testTable(cfaAdvance|1, cfaDefineOffset, 16, cfaOffset|regRBP, 2)
	f.Add(header, frames, uint64(testFunction))
	f.Add(header, bytes.Repeat([]byte{0xff}, 64), uint64(testFunction))
	f.Fuzz(func(t *testing.T, header, frames []byte, addr uint64) {
		table, err := newTestTable(header, frames)
		if err != nil {
			return
		}
		if r, err := table.rowAt(addr); err == nil && r.function > addr {
			t.Errorf("the function at %#x holds %#x", r.function, addr)
		}
	})
}

// redBelow is how far below the stack pointer a stack's copy begins.
const redBelow = 128

// FuzzProgram: for any CFA program (the part of an unwind table that builds rows) and any stack, two things end:
// reading the program, and unwinding by its rows.
func FuzzProgram(f *testing.F) {
	f.Add([]byte{cfaAdvance | 1, cfaDefineOffset, 16, cfaOffset | regRBP, 2}, []byte{1, 2, 3}, uint64(testStack),
		uint64(testFunction+4))
	f.Add([]byte{cfaDefineExpression, byte(len(plt))}, plt, uint64(testStack), uint64(testFunction))
	f.Add([]byte{cfaRemember, cfaRemember, cfaRestoreState, cfaArgsSize, 1}, []byte{}, uint64(testStack),
		uint64(testFunction))
	f.Fuzz(func(t *testing.T, program, stack []byte, sp, addr uint64) {
		table, err := newTestTable(testTable(program...))
		if err != nil {
			t.Fatal(err)
		}
		var all [NumRegisters]uint64
		all[StackPointer], all[regRBP], all[NumRegisters-1] = sp, addr, testBias+addr
		_ = newFake(t, table, nil).UnwindCopied(AllRegisters(all), sp-redBelow, stack)
		got := newFake(t, table, stack).Unwind(At(sp, testBias+addr))
		if len(got.Frames) > maxFrames {
			t.Errorf("%d frames", len(got.Frames))
		}
		for _, x := range got.Frames {
			if x.inside < testBias || x.inside >= testBias+0x10000 {
				t.Errorf("a frame at %#x", x.PC)
			}
		}
	})
}

// FuzzExpression: for any expression, evaluating ends with a value or an error.
func FuzzExpression(f *testing.F) {
	f.Add(plt, []byte{})
	f.Add([]byte{opBreg0 + regRSP, 0x20, opDeref, opPlusConst, 4}, make([]byte, 64))
	f.Add([]byte{opConst8s, 1, 2, 3, 4, 5, 6, 7, 8, opConst1s, 0xff, opMul}, []byte{})
	f.Fuzz(func(t *testing.T, expression, stack []byte) {
		s := newFake(t, nil, stack)
		regs := At(testStack, testBias)
		_, _ = evaluate(expression, &regs, &stackMemory{space: s}, testStack)
	})
}
