package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/elftest"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestHostileLibrary: if a process runs a libruby whose headers lie, ddtop does not panic, and needs little memory.
func TestHostileLibrary(t *testing.T) {
	needBPF(t)
	r := hostRuby(t)
	plain := r.Start(t, "$stdout.sync = true\nputs %q(ready)\n$stdin.gets", rubytest.Options{})
	plain.Expect(t, "ready")
	_, module, _ := opened(t, plain)
	if !isLibrary(module.Path) {
		rubytest.Skip(t, "this Ruby has no libruby: it is a single file")
	}
	library, err := os.ReadFile(module.Path)
	if err != nil {
		t.Fatal(err)
	}
	wanted := module.Path
	for _, m := range neededBy(t, r.Bin) {
		if strings.HasPrefix(m, "libruby") {
			wanted = m
		}
	}
	for name, kind := range map[string]elf.SectionType{"relocations": elf.SHT_RELA, "versions": elf.SHT_GNU_VERNEED} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, filepath.Base(wanted))
			if err := os.WriteFile(file, withCompressed(t, library, kind), 0o755); err != nil {
				t.Fatal(err)
			}
			p := r.Start(t, "$stdout.sync = true\nputs %q(ready)\n$stdin.gets", rubytest.Options{Env: []string{"LD_LIBRARY_PATH=" + dir}})
			p.Expect(t, "ready")
			proc, module, maps := opened(t, p)
			if module.Path != file {
				t.Fatalf("the Ruby is in %s", module.Path)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			code, err := FindCode(proc, module, maps, CodeOptions{Before33: !r.AtLeast(3, 3)})
			runtime.ReadMemStats(&after)
			defer code.Close()
			if used := after.TotalAlloc - before.TotalAlloc; err != nil || len(code.sites) == 0 || used > 64<<20 {
				t.Errorf("%d MB allocated, %d sites, %v", used>>20, len(code.sites), err)
			}
		})
	}
}

func neededBy(t *testing.T, path string) []string {
	t.Helper()
	m, err := attach.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return m.Needs()
}

// withCompressed returns a copy of a library. In the copy, the first section of the given kind claims to be compressed,
// with a size of 400 MB. Programs still run with this library, because the dynamic linker ignores sections.
func withCompressed(t *testing.T, library []byte, kind elf.SectionType) []byte {
	t.Helper()
	out := append(bytes.Clone(library), make([]byte, 16-len(library)%16)...)
	squeezed := elftest.Zeros(t, 400)
	const head = 64
	at, n := binary.LittleEndian.Uint64(out[40:]), uint64(binary.LittleEndian.Uint16(out[60:]))
	for i := range n {
		h := out[at+i*head:]
		if elf.SectionType(binary.LittleEndian.Uint32(h[4:])) != kind {
			continue
		}
		binary.LittleEndian.PutUint64(h[8:], binary.LittleEndian.Uint64(h[8:])|uint64(elf.SHF_COMPRESSED))
		binary.LittleEndian.PutUint64(h[24:], uint64(len(out)))
		binary.LittleEndian.PutUint64(h[32:], uint64(len(squeezed)))
		return append(out, squeezed...)
	}
	t.Fatalf("no section is %v", kind)
	return nil
}

// TestTheFileThatWasFound: a library's file is replaced at its path after the process has mapped it. The probes go into
// the mapped file, not into the new one.
func TestTheFileThatWasFound(t *testing.T) {
	needBPF(t)
	r := hostRuby(t)
	plain := r.Start(t, "$stdout.sync = true\nputs %q(ready)\n$stdin.gets", rubytest.Options{})
	plain.Expect(t, "ready")
	_, module, _ := opened(t, plain)
	if !isLibrary(module.Path) {
		rubytest.Skip(t, "this Ruby has no libruby: it is a single file")
	}
	library, err := os.ReadFile(module.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range neededBy(t, r.Bin) {
		if !strings.HasPrefix(name, "libruby") {
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, library, 0o755); err != nil {
			t.Fatal(err)
		}
		w := watchWith(t, r, busy, false, rubytest.Options{Env: []string{"LD_LIBRARY_PATH=" + dir}})
		if w.module.Path != file {
			t.Fatalf("the Ruby is in %s", w.module.Path)
		}
		if err := os.Rename(file, file+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.Repeat([]byte{0x90}, len(library)), 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := Attach(w.proc, w.code, w.target)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTooManyCalls: callsIn returns an error if code calls a function more often than any real library does, or has too
// many stubs.
func TestTooManyCalls(t *testing.T) {
	const slot = 0x100
	// a call through the slot at the call's own address
	through := binary.LittleEndian.AppendUint32([]byte{0xff, 0x15}, ^uint32(5))
	slots := make(map[uint64]int)
	code := attach.CodeSection{Addr: slot, Bytes: bytes.Repeat(through, maxCalls+1)}
	for i := range maxCalls + 1 {
		slots[slot+uint64(6*i)] = 0
	}
	for linkers, most := range map[bool]int{false: maxCalls, true: maxStubs} {
		code.Linkers = linkers
		if _, err := callsIn([]attach.CodeSection{code}, slots, 1); !errors.Is(err, errManyCalls) {
			t.Errorf("stubs %v: %v", linkers, err)
		}
		few := code
		few.Bytes = code.Bytes[:6*most]
		if _, err := callsIn([]attach.CodeSection{few}, slots, 1); err != nil {
			t.Errorf("stubs %v: %v", linkers, err)
		}
	}
}
