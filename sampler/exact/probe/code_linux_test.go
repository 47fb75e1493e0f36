package probe

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// mapped starts a Ruby, and returns what FindCode needs of it.
func mapped(t *testing.T, r rubytest.Ruby) (*attach.Process, *attach.Module, []attach.Mapping) {
	t.Helper()
	p := r.Start(t, "$stdout.sync = true\nputs %q(ready)\n$stdin.gets", rubytest.Options{})
	p.Expect(t, "ready")
	proc, err := attach.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	module, err := attach.FindRuby(proc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { module.Close() })
	maps, err := proc.Maps()
	if err != nil {
		t.Fatal(err)
	}
	return proc, module, maps
}

// TestWhereTheProbesGo: probes go into libruby if it has functions for them. Otherwise, or if a test sets LibC, they go
// into the C library, at the default version of each function. Ruby up to 3.2 needs one probe more. FindCode finds the
// call sites unless a test sets LibC.
func TestWhereTheProbesGo(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		proc, module, maps := mapped(t, r)
		before33 := !r.AtLeast(3, 3)
		for _, libc := range []bool{false, true} {
			code, err := FindCode(proc, module, maps, CodeOptions{Before33: before33, LibC: libc})
			if err != nil {
				t.Fatal(err)
			}
			defer code.Close()
			if want := 3; len(code.sites) != want && !before33 || len(code.sites) != want+1 && before33 {
				t.Errorf("%d sites", len(code.sites))
			}
			if known := code.callSites > 0; known == libc {
				t.Errorf("%d call sites, and libc is %v", code.callSites, libc)
			}
			for _, s := range code.sites {
				ruby := s.file.Path == module.Path
				switch {
				case libc && ruby, ruby != strings.HasPrefix(s.symbol, "rb_native_"):
					t.Errorf("%s is in %s", s.symbol, s.file.Path)
				case !libc && r.Root != "" && r.AtLeast(3, 0) && s.symbol != "pthread_cond_timedwait" && !ruby:
					t.Errorf("Debian's libruby has functions of its own, and the probe is at %s", s.symbol)
				case !libc && !r.AtLeast(3, 0) && ruby:
					t.Errorf("%s is in libruby, whose own callers have it within themselves", s.symbol)
				}
				if in, ok := mappingOf(maps, s.at); !ok || !in.Exec || in.Path != s.file.Path || in.Offset+uint64(s.at-in.Start) != s.offset {
					t.Errorf("%s: %v is in %+v", s.symbol, s.at, in)
				}
			}
		}
	})
}

// TestFollowsItsCalls: callsOf finds the places where libruby calls a function of the C library. It finds at least one
// place for each function. In Debian's libruby of 2.7 it finds at least five calls of pthread_mutex_unlock.
func TestFollowsItsCalls(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		_, module, _ := mapped(t, r)
		if !isLibrary(filepath.Base(module.Path)) {
			rubytest.Skip(t, "this Ruby has no libruby: it is a single file")
		}
		all := functions(true)
		set, ok := instructionSetOf(module.Machine)
		if !ok {
			t.Fatalf("not written for %s", module.Machine)
		}
		calls, err := callsOf(module, all, set)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range all {
			if len(calls[i]) == 0 {
				t.Errorf("%s is called nowhere", f.libc)
			}
		}
		if outside := len(calls[0]); !r.AtLeast(3, 0) && outside < 5 {
			t.Errorf("pthread_mutex_unlock is called in %d places", outside)
		}
	})
}

// TestJumps: code can call a function of another file in several ways. callsIn finds the calls in all ways that
// compilers and linkers use.
func TestJumps(t *testing.T) {
	const text, plt, slot = 0x1000, 0x3000, 0x5000
	rel := func(from, to uint64, op ...byte) []byte {
		return binary.LittleEndian.AppendUint32(op, uint32(to-from-uint64(len(op))-4))
	}
	linkers := attach.CodeSection{Addr: plt, Linkers: true, Bytes: slices.Concat(
		[]byte{0xf3, 0x0f, 0x1e, 0xfa}, rel(plt+4, slot, 0xff, 0x25), []byte{0x90, 0x90}, // endbr64; jmp *slot
		[]byte{0xf3, 0x0f, 0x1e, 0xfa, 0xf2}, rel(plt+17, slot+8, 0xff, 0x25), // endbr64; bnd jmp *slot
	)}
	own := attach.CodeSection{Addr: text}
	var want []uint64
	add := func(fn int, op ...byte) {
		at := text + uint64(len(own.Bytes))
		to := [2]uint64{plt, plt + 12}[fn]
		if op[0] == 0xff || op[0] == 0x48 {
			to = [2]uint64{slot, slot + 8}[fn]
		}
		own.Bytes = append(own.Bytes, rel(at, to, op...)...)
		want = append(want, at+uint64(len(op)-1))
	}
	add(0, 0xe8)             // call
	add(1, 0xe8)             //
	add(0, 0xe9)             // a tail call
	add(1, 0x0f, 0x84)       // a conditional tail call
	add(0, 0xff, 0x15)       // a call without a stub
	add(1, 0xff, 0x25)       //
	add(0, 0x48, 0x8b, 0x05) // loads the address for a call by register
	own.Bytes = append(own.Bytes, 0xe8, 1, 2, 3, 4, 0xff, 0x15, 9, 9, 9, 9, 0xc3)
	slots := map[uint64]int{slot: 0, slot + 8: 1}
	var got [2][]uint64
	calls, err := callsIn([]attach.CodeSection{linkers, own}, slots, 2)
	if err != nil {
		t.Fatal(err)
	}
	copy(got[:], calls)
	// For a call of a stub, callsIn returns the place of the byte with the operation. For a call through a slot, it
	// returns the instruction's first byte.
	if n := len(got[0]) + len(got[1]); n != len(want) || len(got[0]) != 4 || len(got[1]) != 3 {
		t.Errorf("%#x, want %#x", got, want)
	}
	for _, at := range slices.Concat(got[0], got[1]) {
		if !slices.ContainsFunc(want, func(w uint64) bool { return at <= w && at+1 >= w }) {
			t.Errorf("%#x is none of %#x", at, want)
		}
	}
}
