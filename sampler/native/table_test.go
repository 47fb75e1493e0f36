package native

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// These constants are addresses in the invented file whose unwind tables the tests use.
const (
	testHeader, testFrames, testFunction, testSize = 0x1000, 0x2000, 0x5000, 0x100
)

func le(size int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)[:size]
}

// record makes a record of an unwind table: it puts the length before the parts, and pads the record.
func record(parts ...[]byte) []byte {
	b := slices.Concat(parts...)
	for len(b)%4 != 0 {
		b = append(b, cfaNop)
	}
	return append(le(4, uint64(len(b))), b...)
}

// testTable makes the unwind tables of an invented file with one function.
func testTable(program ...byte) (header, frames []byte) {
	common := record(le(4, 0), []byte{1, 'z', 'R', 0, 1, 0x78, regReturn, 1, encodeRelative | encodeS4,
		cfaDefine, regRSP, 8, cfaOffset | regReturn, 1})
	at := len(common)
	function := record(le(4, uint64(at+4)), le(4, testFunction-(testFrames+uint64(at)+8)), le(4, testSize),
		[]byte{0}, program)
	frames = slices.Concat(common, function, le(4, 0))
	header = slices.Concat([]byte{1, encodeRelative | encodeS4, encodeU4, 0x30 | encodeS4}, le(4,
		testFrames-(testHeader+4)), le(4, 1),
		le(4, testFunction-testHeader), le(4, testFrames+uint64(at)-testHeader))
	return header, frames
}

// newTestTable reads the given tables as the tables of the invented file.
func newTestTable(header, frames []byte) (*table, error) {
	return newTable(testHeader, uint64(len(header)), func(addr uint64, most int) ([]byte, error) {
		switch addr {
		case testHeader:
			return header[:min(most, len(header))], nil
		case testFrames:
			return frames[:min(most, len(frames))], nil
		}
		return nil, errTable
	})
}

func TestRow(t *testing.T) {
	table, err := newTestTable(testTable(
		cfaAdvance|1, cfaDefineOffset, 16, cfaOffset|regRBP, 2, // push %rbp
		cfaAdvance|3, cfaDefineRegister, regRBP, // mov %rsp, %rbp
		cfaAdvance1, 0x40, cfaRemember, cfaDefine, regRSP, 8, cfaRestore|regRBP, // leave
		cfaAdvance|1, cfaRestoreState,
	))
	if err != nil {
		t.Fatal(err)
	}
	saved := rule{kind: ruleSaved, offset: -16}
	for _, c := range []struct {
		at         uint64
		frame, rbp rule
	}{
		{0, rule{kind: ruleRegister, register: regRSP, offset: 8}, rule{}},
		{1, rule{kind: ruleRegister, register: regRSP, offset: 16}, saved},
		{4, rule{kind: ruleRegister, register: regRBP, offset: 16}, saved},
		{0x44, rule{kind: ruleRegister, register: regRSP, offset: 8}, rule{}},
		{0x45, rule{kind: ruleRegister, register: regRBP, offset: 16}, saved},
		{testSize - 1, rule{kind: ruleRegister, register: regRBP, offset: 16}, saved},
	} {
		r, err := table.rowAt(testFunction + c.at)
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b rule) bool { return a.kind == b.kind && a.register == b.register && a.offset == b.offset }
		if !same(r.frame, c.frame) || !same(r.registers[regRBP], c.rbp) || r.function != testFunction ||
			!same(r.registers[regReturn], rule{kind: ruleSaved, offset: -8}) {
			t.Errorf("at %#x: %+v", c.at, r)
		}
	}
	for _, outside := range []uint64{0, testFunction - 1, testFunction + testSize, 1<<64 - 1} {
		if r, err := table.rowAt(outside); !errors.Is(err, errTable) {
			t.Errorf("at %#x: %+v, %v", outside, r, err)
		}
	}
}

// plt is the expression of the frame's address in a linker's stubs of 16 bytes: %rsp + 8 + 8 * ((%rip & 15) >= 11).
var plt = []byte{opBreg0 + regRSP, 8, opBreg0 + regReturn, 0, opLit0 + 15, opAnd, opLit0 + 11, opGe, opLit0 + 3,
	opShl, opPlus}

func TestExpressionOfStubs(t *testing.T) {
	for pc, want := range map[uint64]uint64{0x1230: 0x7008, 0x123a: 0x7008, 0x123b: 0x7010, 0x123f: 0x7010} {
		regs := At(0x7000, pc)
		if got, err := evaluate(plt, &regs, nil); err != nil || got != want {
			t.Errorf("at %#x: %#x, %v, want %#x", pc, got, err, want)
		}
	}
	regs := At(0x7000, 0x1230)
	var unknown unknownRegister
	if _, err := evaluate([]byte{opBreg0 + regRBP, 0}, &regs, nil); !errors.As(err, &unknown) || unknown != regRBP {
		t.Errorf("an unknown register: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]int64{"\x00": 0, "\x02": 2, "\x7e": -2, "\xff\x00": 127, "\x81\x7f": -127,
		"\x80\x7f": -128,
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f": -1 << 63} {
		r := reader{b: []byte(text)}
		if got := r.sleb(); got != want || r.failed || r.left() != 0 {
			t.Errorf("%q: %d, %v", text, got, r)
		}
	}
	for _, text := range []string{"", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"} {
		r := reader{b: []byte(text)}
		if got := r.uleb(); got != 0 || !r.failed {
			t.Errorf("%q: %d, %v", text, got, r)
		}
	}
}

// The invented process has its only file mapped at testBias, and its stack at testStack.
const testBias, testStack, testStackSize = 0x10000000, 0x20000000, 1 << 16

// fake is a process with a stack, and one file with a table.
type fake struct {
	stack []byte
}

func (f *fake) Read(at attach.Address, b []byte) error {
	if at < testStack || uint64(at-testStack)+uint64(len(b)) > testStackSize {
		return errStack
	}
	clear(b)
	if from := int(at - testStack); from < len(f.stack) {
		copy(b, f.stack[from:])
	}
	return nil
}

func (f *fake) ReadBatch([]attach.Range) (int, error) { return 0, errStack }
func (f *fake) Maps() ([]attach.Mapping, error) {
	return []attach.Mapping{
		{Start: testBias, End: testBias + 0x10000, Read: true, Exec: true, Path: "/lib/libtest-1.so.2", Inode: 1},
		{Start: testStack, End: testStack + testStackSize, Read: true, Write: true},
		{Start: testStack + 1<<20, End: testStack + 1<<21, Read: true, Exec: true}, // memory of a JIT
	}, nil
}
func (f *fake) Module(string, []attach.Mapping) (*attach.Module, error) { return nil, errTable }

// newFake returns a process with one file, which has a table.
func newFake(t testing.TB, tables *table, stack []byte) *Space {
	t.Helper()
	s, err := NewSpace(&fake{stack})
	if err != nil {
		t.Fatal(err)
	}
	s.modules[fileID{path: "/lib/libtest-1.so.2", inode: 1}] = &module{table: tables, short: "libtest", names: make(map[uint64]string),
		Module: &attach.Module{Bias: testBias, Machine: "x86_64", Loads: []attach.Span{{Start: testBias,
			End: testBias + 0x10000}}}}
	return s
}

// TestUnwindStops: if a register or a table is missing, unwinding does not guess. It stops and gives the reason.
func TestUnwindStops(t *testing.T) {
	const pc = testBias + testFunction + 0x10
	words := func(list ...uint64) (b []byte) {
		for _, w := range list {
			b = append(b, le(8, w)...)
		}
		return b
	}
	for name, c := range map[string]struct {
		program []byte
		stack   []byte
		frames  int
		want    error
		text    string
	}{
		"a fiber's first function": {nil, words(pc, pc, 0), 3, nil, ""},
		"the first of a thread":    {[]byte{cfaUndefined, regReturn}, nil, 1, nil, ""},
		"an unknown register": {[]byte{cfaDefine, regRBP, 16}, nil, 1, unknownRegister(regRBP),
			"libtest finds its frames by register rbp, which the kernel does not tell"},
		"its caller's": {[]byte{cfaAdvance | 0x11, cfaDefine, regRBP, 16}, words(pc + 8), 2,
			unknownRegister(regRBP), ""},
		"a frame inward":  {[]byte{cfaDefineSigned, regRSP, 1}, words(pc), 1, errLoop, ""},
		"a JIT's code":    {nil, words(pc, testStack+1<<20+16), 2, errJIT, "it leads to code that a JIT made"},
		"data":            {nil, words(testStack), 1, errNowhere, ""},
		"the stack's end": {[]byte{cfaDefine, regRSP, 0x80, 0x80, 0x08}, nil, 1, errStack, ""},
		"zeros of gcore":  {nil, words(0, 0), 1, errStack, ""},
		"no function":     {nil, words(testBias + 1), 2, errTable, ""},
		"too many frames": {nil, slices.Repeat(words(pc), testStackSize/8-2), maxFrames, nil,
			"the stack has more than 1024 frames"},
	} {
		tables, err := newTestTable(testTable(c.program...))
		if err != nil {
			t.Fatal(err)
		}
		got := newFake(t, tables, append(words(pc, pc), c.stack...)).Unwind(At(testStack+16, pc))
		if len(got.Frames) != c.frames || c.want != nil && !errors.Is(got.Stopped, c.want) || c.want == nil &&
			c.text == "" && got.Stopped != nil ||
			c.text != "" && (got.Stopped == nil || got.Stopped.Error() != c.text) {
			t.Errorf("%s: %d frames, %v", name, len(got.Frames), got.Stopped)
		}
	}
}

func TestShortNames(t *testing.T) {
	for path, want := range map[string]string{"/usr/lib/libruby-3.1.so.3.1.2": "libruby", "/lib/libc.so.6": "libc",
		"/lib/libc-2.31.so": "libc",
		"/gems/pg_ext.so":   "pg_ext", "/usr/bin/ruby3.1": "ruby3.1", "[vdso]": "[vdso]", "/x/.so": ".so",
		"/x/-1.so": "-1", "": ""} {
		if got := shortName(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestFits: a native stack fits Ruby's control frames if both have the same marks (see mark). If one of the two lists
// is incomplete, only the part that was read is compared.
func TestFits(t *testing.T) {
	const c, e = markCall, markEnter
	for name, x := range map[string]struct {
		marks, want          []mark
		jit, toTheEnd, whole bool
		fits                 bool
	}{
		"the same":                        {[]mark{c, e, c, e}, []mark{c, e, c, e}, false, true, true, true},
		"C alone":                         {nil, nil, false, true, true, true},
		"one call less":                   {[]mark{e, c, e}, []mark{c, e, c, e}, false, true, true, false},
		"one call more":                   {[]mark{c, e, c, e}, []mark{e, c, e}, false, true, true, false},
		"an end too early":                {[]mark{c, e}, []mark{c, e, e}, false, true, true, false},
		"an end too late":                 {[]mark{c, e, e}, []mark{c, e}, false, true, true, false},
		"stopped on the way":              {[]mark{c, e}, []mark{c, e, e}, false, false, true, true},
		"more than the control frames":    {[]mark{c, e, e}, []mark{c, e}, false, true, false, true},
		"a JIT's code around Ruby":        {nil, []mark{e}, true, false, true, true},
		"a JIT's code calls C":            {nil, []mark{c, e}, true, false, true, true},
		"that calls C":                    {[]mark{c}, []mark{c, c, e}, true, false, true, true},
		"a JIT's code does not call two":  {nil, []mark{c, c, e}, true, false, true, false},
		"a JIT's code, but no Ruby frame": {[]mark{c, e}, []mark{c, e}, true, false, true, false},
	} {
		if got := fits(x.marks, x.want, x.jit, x.toTheEnd, x.whole); got != x.fits {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// replaced is a process whose file is replaced by another one after the first read.
type replaced struct {
	fake
	looks int
}

func (r *replaced) Maps() ([]attach.Mapping, error) {
	list, err := r.fake.Maps()
	if r.looks++; r.looks > 1 {
		list[0].Inode++
	}
	return list, err
}

// TestReplacedFile: a process has mapped a file, and another file now has its path. ddtop must not use the tables of
// the old file to unwind code of the new file.
func TestReplacedFile(t *testing.T) {
	const pc = testBias + testFunction + 0x10
	tables, err := newTestTable(testTable())
	if err != nil {
		t.Fatal(err)
	}
	p := &replaced{fake: fake{append(le(8, 0), 1)}} // the first function of a fiber
	s, err := NewSpace(p)
	if err != nil {
		t.Fatal(err)
	}
	s.modules = newFake(t, tables, nil).modules
	if got := s.Unwind(At(testStack, pc)); len(got.Frames) != 1 || got.Stopped != nil || len(s.rows) != 1 {
		t.Fatalf("%+v", got)
	}
	if err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	if got := s.Unwind(At(testStack, pc)); len(got.Frames) != 1 || !errors.Is(got.Stopped, errTable) ||
		len(s.rows) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestHostileTablesEndSoon: a hostile file can have unwind tables that need endless work. Unwinding must then stop with
// an error after a limited amount of work.
func TestHostileTablesEndSoon(t *testing.T) {
	const pc = testBias + testFunction + 1
	// In this row of the unwind table, the frame's address is the stack pointer plus 8. To find a register, an
	// expression reads many words of the stack.
	reads := func(n int) []byte {
		expression := slices.Repeat([]byte{opBreg0 + regRSP, 0, opDeref, opAnd}, n)
		expression = append([]byte{opLit0}, expression...)
		return append([]byte{cfaValueExpre, regR12, byte(len(expression)&0x7f | 0x80), byte(len(expression) >> 7)},
			expression...)
	}
	for name, program := range map[string][]byte{
		"many words":          reads(maxExpression/4 - 1),
		"a long expression":   reads(maxExpression/4 + 1),
		"rows are put aside":  slices.Repeat([]byte{cfaRemember, cfaRestoreState}, maxRecord/2-64),
		"programs of nothing": make([]byte, maxRecord-64),
	} {
		tables, err := newTestTable(testTable(program...))
		if err != nil {
			t.Fatal(err)
		}
		// Each frame of the stack returns to a different instruction of the function. So each frame needs a new row.
		var stack []byte
		for i := range uint64(maxFrames) {
			stack = append(stack, le(8, testBias+testFunction+1+i%(testSize-1))...)
		}
		s := newFake(t, tables, stack)
		got := s.Unwind(At(testStack, pc))
		if name == "a long expression" {
			if len(got.Frames) != 1 || !errors.Is(got.Stopped, errTable) {
				t.Errorf("%s: %d frames, %v", name, len(got.Frames), got.Stopped)
			}
			continue
		}
		if len(got.Frames) >= maxFrames || got.Stopped == nil || s.executed > maxExecuted+2*maxRecord {
			t.Errorf("%s: %d frames, %d bytes, %v", name, len(got.Frames), s.executed, got.Stopped)
		}
	}
}

// twice is a process that has mapped two files of the same path. The first file was replaced at its path while it was
// mapped, and then the new file was mapped, too.
type twice struct {
	fake
	asked []uint64
}

func (p *twice) Maps() ([]attach.Mapping, error) {
	list, err := p.fake.Maps()
	second := list[0]
	second.Start, second.End, second.Inode = testBias+0x20000, testBias+0x30000, 2
	return slices.Insert(list, 1, second), err
}

func (p *twice) Module(_ string, mappings []attach.Mapping) (*attach.Module, error) {
	for _, m := range mappings {
		p.asked = append(p.asked, m.Inode)
	}
	return nil, errTable
}

// TestTwoFilesOfOnePath: if two files of the same path are mapped, each is opened with its own mappings only.
func TestTwoFilesOfOnePath(t *testing.T) {
	p := &twice{}
	s, err := NewSpace(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, pc := range []uint64{testBias + 0x20010, testBias + 0x10} {
		if got := s.Unwind(At(testStack, pc)); len(got.Frames) != 1 || !errors.Is(got.Stopped, errTable) {
			t.Errorf("%+v", got)
		}
	}
	if !slices.Equal(p.asked, []uint64{2, 1}) {
		t.Errorf("opened by the mappings of files %v", p.asked)
	}
}
