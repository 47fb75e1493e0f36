package probe

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// words returns instructions in the form that they have in memory.
func words(of ...uint32) []byte {
	var b []byte
	for _, w := range of {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// Instructions of aarch64, as llvm-mc makes them.
const (
	armPaciasp   = 0xd503233f
	armBTI       = 0xd503245f // bti c
	armNop       = 0xd503201f
	armPush      = 0xa9bf7bfd // stp x29, x30, [sp, #-16]!
	armFrame     = 0x910003fd // mov x29, sp
	armCall      = 0x97f8f0fe // bl
	armJump      = 0x17ffff9e // b
	armAdrpX2    = 0xf0000942 // adrp x2
	armAdrX1     = 0x10000001 // adr x1
	armCbz       = 0x34000101 // cbz w1
	armTbnz      = 0x37180040 // tbnz w0, #3
	armBne       = 0x54001741 // b.ne
	armReturn    = 0xd65f03c0 // ret
	armMov1X19   = 0xaa1303e1 // mov x1, x19
	armMov0X19   = 0xaa1303e0 // mov x0, x19
	armMov19X0   = 0xaa0003f3 // mov x19, x0
	armOneW1     = 0x52800021 // mov w1, #1
	armAdd0      = 0x91007000 // `add x0, x0, #28`
	armLoadW22   = 0xb9400016 // ldr w22, [x0]
	armLoadX0    = 0xf9473c40 // `ldr x0, [x2, #3704]`
	armCompare   = 0x6b560fff // cmp wzr, w22, lsr #3
	armStore     = 0xf9000bf3 // `str x19, [sp, #16]`
	armPost      = 0xf8408415 // ldr x21, [x0], #8
	armStorePost = 0xf8008415 // str x21, [x0], #8
	armPair      = 0xa9400440 // ldp x0, x1, [x2]
	armPairAt1   = 0xa9401021 // ldp x1, x4, [x1]
	armMrs       = 0xd53bd057 // mrs x23, tpidr_el0
	armMrs0      = 0xd53bd040 // mrs x0, tpidr_el0
	armExclusive = 0xc85ffc02 // ldaxr x2, [x0]
	armBranchX16 = 0xd61f0200 // br x16
	armLiteral   = 0x58000040 // ldr x0, .+8
	armLiteral9  = 0x58000049 // ldr x9, .+8
	armSyscall   = 0xd4000001 // svc #0
	armSubSP     = 0xd10303ff // `sub sp, sp, #192`
	armMoved     = 0xaa0103f7 // mov x23, x1
	armUnknown   = 0x00000000 // udf #0
	armBrk       = 0xd42000a0 // brk #5
	armConstant  = 0xf2a000e0 // `movk x0, #7, lsl #16`
	armSwap      = 0xf8218002 // swp x1, x2, [x0]
	armVector    = 0x3dc00000 // ldr q0, [x0]
	armCondition = 0x54001751 // bc.ne, another instruction than b.ne
)

// TestPlaceARM: placeARM finds the first instruction that can have a probe. The test uses beginnings of functions as
// compilers make them.
func TestPlaceARM(t *testing.T) {
	for name, c := range map[string]struct {
		code []byte
		arg  argument
		want int // the offset of the instruction, or -1 if there is none
	}{
		"libruby of Debian 12":             {words(armPush, armFrame, armCall), firstArgument, 8},
		"libruby of Debian 13":             {words(armPaciasp, armPush, armFrame, armCall), secondArgument, 12},
		"its cond_signal":                  {words(armPush, armFrame, armStore, armMov19X0, armNop, armMov0X19, armCall), noArgument, 24},
		"the same, for the argument":       {words(armPush, armFrame, armStore, armMov19X0, armNop, armMov0X19, armCall), firstArgument, -1},
		"glibc's mutex_unlock":             {words(armBTI, armOneW1, armJump), firstArgument, 8},
		"the same, for the other one":      {words(armBTI, armOneW1, armJump), secondArgument, -1},
		"glibc's cond_wait":                {words(armPaciasp, armSubSP, armAdrpX2, armLoadX0), secondArgument, 8},
		"glibc's cond_signal":              {words(armPaciasp, armPush, armFrame, armMov19X0, armAdd0, armLoadW22, armCompare, armBne), noArgument, 28},
		"what it writes is read before":    {words(armAdrX1), secondArgument, 0},
		"cbz":                              {words(armCbz), firstArgument, 0},
		"tbnz":                             {words(armTbnz), firstArgument, 0},
		"keeps both":                       {words(armMov19X0, armMoved, armMrs, armCall), secondArgument, 12},
		"overwrites x1":                    {words(armMov1X19, armCall), secondArgument, -1},
		"overwrites x1, for x0":            {words(armMov1X19, armCall), firstArgument, 4},
		"overwrites x0 by mrs":             {words(armMrs0, armCall), firstArgument, -1},
		"adds to x0":                       {words(armAdd0, armCall), firstArgument, -1},
		"changes a part of x0":             {words(armConstant, armCall), firstArgument, -1},
		"loads x0":                         {words(armLoadX0, armCall), firstArgument, -1},
		"loads through x0":                 {words(armLoadW22, armCall), firstArgument, 4},
		"loads a vector's register":        {words(armVector, armCall), firstArgument, 4},
		"loads through x0, and moves it":   {words(armPost, armCall), firstArgument, -1},
		"the same, for x1":                 {words(armPost, armCall), secondArgument, 4},
		"stores through x0, and moves it":  {words(armStorePost, armCall), firstArgument, -1},
		"loads both of a pair":             {words(armPair, armCall), secondArgument, -1},
		"loads a pair of which it is one":  {words(armPairAt1, armCall), secondArgument, -1},
		"the same, for x0":                 {words(armPairAt1, armCall), firstArgument, 4},
		"a literal into x0":                {words(armLiteral, armCall), firstArgument, -1},
		"a literal is passed, not probed":  {words(armLiteral9, armCall), firstArgument, 4},
		"a hint is passed, not probed":     {words(armNop, armCall), firstArgument, 4},
		"returns":                          {words(armReturn, armCall), firstArgument, -1},
		"jumps by a register":              {words(armBranchX16, armCall), firstArgument, -1},
		"a system call":                    {words(armSyscall, armCall), firstArgument, -1},
		"an exclusive load":                {words(armExclusive, armCall), firstArgument, -1},
		"an exchange, which is not known":  {words(armSwap, armCall), firstArgument, -1},
		"a breakpoint":                     {words(armBrk, armCall), firstArgument, -1},
		"no instruction":                   {words(armUnknown, armCall), firstArgument, -1},
		"a branch with a hint: not probed": {words(armCondition, armCall), firstArgument, -1},
		"cut off":                          {words(armCall)[:3], firstArgument, -1},
		"nothing":                          {nil, firstArgument, -1},
		"further than is looked":           {append(slices.Repeat(words(armFrame), 16), words(armCall)...), firstArgument, -1},
	} {
		got, err := placeARM(c.code, c.arg)
		if c.want < 0 {
			if !errors.Is(err, errNoPlace) {
				t.Errorf("%s: %d, %v; want none", name, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, c.want)
		}
	}
}

// FuzzPlaceARM: for any code, placeARM finds an instruction that the kernel simulates, within the given bytes.
func FuzzPlaceARM(f *testing.F) {
	f.Add(words(armPaciasp, armPush, armFrame, armCall), uint8(1))
	f.Add(words(armPair, armPost, armMrs, armCbz), uint8(2))
	f.Fuzz(func(t *testing.T, code []byte, arg uint8) {
		at, err := placeARM(code, argument(arg%3))
		if err != nil {
			return
		}
		if at < 0 || at%4 != 0 || at+4 > len(code) || at >= maxEntryBytesARM || !simulated(binary.LittleEndian.Uint32(code[at:])) {
			t.Fatalf("at %d of %d: % x", at, len(code), code)
		}
	})
}
