package probe

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// TestPlace: place finds the first instruction that can have a probe. The test uses beginnings of functions as
// compilers make them. The addresses of jumps and calls are invented.
func TestPlace(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		arg  argument
		want int // the offset of the instruction, or -1 if there is none
	}{
		"libruby: sub rsp, call":          {"48 83 ec 08 e8 11 22 33 00 85 c0", firstArgument, 4},
		"hardened: endbr64, sub, call":    {"f3 0f 1e fa 48 83 ec 08 e8 11 22 33 00", firstArgument, 8},
		"push rbx":                        {"53 48 89 fb", noArgument, 0},
		"push r12 after endbr64":          {"f3 0f 1e fa 41 54 55", secondArgument, 4},
		"glibc: mov esi, jmp":             {"be 01 00 00 00 e9 11 22 33 00", firstArgument, 5},
		"the same, for the other one":     {"be 01 00 00 00 e9 11 22 33 00", secondArgument, -1},
		"jcc rel32":                       {"85 ff 0f 84 11 22 00 00", firstArgument, 2},
		"jcc rel8":                        {"48 85 ff 74 05", firstArgument, 3},
		"jmp rel8":                        {"eb 05", firstArgument, 0},
		"nop":                             {"90", firstArgument, 0},
		"a long nop is passed":            {"0f 1f 40 00 55", firstArgument, 4},
		"mov from memory is passed":       {"8b 47 10 53", firstArgument, 3},
		"overwrites rdi":                  {"48 89 f7 53", firstArgument, -1},
		"overwrites edi":                  {"31 ff 53", firstArgument, -1},
		"overwrites dil":                  {"40 b7 01 53", firstArgument, -1},
		"stores through rdi":              {"48 89 37 53", firstArgument, 3},
		"compares rdi":                    {"48 39 f7 53", firstArgument, 3},
		"returns":                         {"c3 53", firstArgument, -1},
		"jumps by a table":                {"ff 25 11 22 33 00", firstArgument, -1},
		"calls by a table":                {"ff 15 11 22 33 00 53", firstArgument, -1},
		"rep stos":                        {"f3 48 ab 53", noArgument, -1},
		"xchg":                            {"48 87 fe 53", firstArgument, -1},
		"a breakpoint":                    {"cc 53", firstArgument, -1},
		"push with an odd prefix":         {"66 53 53", firstArgument, -1},
		"push of a constant":              {"6a 01 53", firstArgument, -1},
		"no instruction":                  {"06 53", firstArgument, -1},
		"cut off":                         {"e8 11", firstArgument, -1},
		"nothing":                         {"", firstArgument, -1},
		"further than is looked":          {strings.Repeat("48 89 c3 ", 20) + "53", firstArgument, -1},
		"conditional move, not foreseen":  {"48 0f 44 fe 53", firstArgument, -1},
		"bnd jmp, which has a prefix":     {"f2 e9 11 22 33 00", firstArgument, -1},
		"loop, which is not emulated":     {"e2 fe 53", firstArgument, -1},
		"a call of 16 bits":               {"66 e8 11 22 53", firstArgument, -1},
		"sub rsp of 32 bits, then push":   {"48 81 ec 00 01 00 00 55", firstArgument, 7},
		"lea of another register is safe": {"48 8d 47 08 50", firstArgument, 4},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(c.code, " ", ""))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := place(code, c.arg)
		if c.want < 0 {
			if !errors.Is(err, errNoPlace) {
				t.Errorf("%s: %d, %v; want none", name, got, err)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, c.want)
		}
	}
}

// FuzzPlace: for any code, place finds an instruction that the kernel emulates, within the given bytes.
func FuzzPlace(f *testing.F) {
	f.Add([]byte{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0xe8, 1, 2, 3, 4}, uint8(1))
	f.Fuzz(func(t *testing.T, code []byte, arg uint8) {
		at, err := place(code, argument(arg%3))
		if err != nil {
			return
		}
		if at < 0 || at >= len(code) || at >= maxEntryBytes {
			t.Fatalf("at %d of %d", at, len(code))
		}
		for n := 1; n <= 6 && at+n <= len(code); n++ {
			if emulated(code[at : at+n]) {
				return
			}
		}
		t.Fatalf("% x at %d is not emulated", code, at)
	})
}
