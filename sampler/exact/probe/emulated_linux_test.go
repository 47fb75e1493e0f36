package probe

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestCodeOfARM: in Debian's Rubies for arm64, each place for a probe is an instruction that the kernel can simulate.
// The place is in libruby if all calls of the C library's function are in one function of libruby. On this machine
// these Rubies run in an emulator, so FindCode refuses them. The test calls findCode instead.
func TestCodeOfARM(t *testing.T) {
	rubytest.EachForeign(t, func(t *testing.T, r rubytest.Ruby) {
		proc, module, maps := mapped(t, r)
		for i := range maps { // an emulator need not map the code that it translates as executable
			maps[i].Exec = maps[i].Exec || maps[i].IsFile() && !maps[i].Write
		}
		before33 := !r.AtLeast(3, 3)
		for _, libc := range []bool{false, true} {
			o := CodeOptions{Before33: before33, LibC: libc}
			if _, err := FindCode(proc, module, maps, o); !errors.Is(err, ErrNoCode) || !strings.Contains(err.Error(), "this Ruby is for aarch64, and the machine is not") {
				t.Errorf("%v", err)
			}
			code, err := findCode(proc, module, maps, o, "arm64", placeARM)
			if err != nil {
				t.Fatal(err)
			}
			defer code.Close()
			if len(code.sites) != len(functions(before33)) {
				t.Errorf("%d sites", len(code.sites))
			}
			for _, s := range code.sites {
				own := r.AtLeast(3, 0) && !libc && s.libc != "pthread_cond_timedwait"
				if (s.file.Path == module.Path) != own || strings.HasPrefix(s.symbol, "rb_native_") != own {
					t.Errorf("%s is in %s", s.symbol, s.file.Path)
				}
				if in, ok := mappingOf(maps, s.at); !ok || in.Path != s.file.Path || in.Offset+uint64(s.at-in.Start) != s.offset || s.at%4 != 0 {
					t.Errorf("%s: %v is in %+v", s.symbol, s.at, in)
				}
				var b [4]byte
				if err := proc.Read(s.at, b[:]); err != nil {
					t.Fatal(err)
				}
				if word := binary.LittleEndian.Uint32(b[:]); !simulated(word) || own && word>>26 != 0b100101 { // bl
					t.Errorf("%s at %#x: %#08x", s.symbol, s.offset, word)
				}
			}
		}
		calls, err := callsOf(module, functions(true), arm64())
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range functions(true) {
			if n := len(calls[i]); n == 0 || n > 100 || !r.AtLeast(3, 0) && i == 0 && n < 5 {
				t.Errorf("%s is called in %d places", f.libc, n)
			}
		}
	})
}
