package foreigntest

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// vmVariable is the name of Ruby's variable that points to its VM. Since 3.3 it is not exported. So if the library is
// stripped, ddtop has to search for the variable.
const vmVariable = "ruby_current_vm_ptr"

const waits = `Thread.new { sleep }; $stdout.puts "ready"; $stdout.flush; STDIN.gets`

// TestVariableOfTheVM: ddtop finds the VM in each of these ways, and all lead to the same VM:
//
//   - by the exported variable
//   - by a search, in a stripped library
//   - by .symtab, which the test adds to Debian's library
//   - by .symtab of a separate debug file below the process's own root
func TestVariableOfTheVM(t *testing.T) {
	rubytest.Long(t)
	rubytest.Program(t, "objcopy", "binutils")
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if r.Root == "" {
			return // the test needs Debian's builds
		}
		library, buildID := libraryOf(t, r)
		p := r.Start(t, waits, rubytest.Options{})
		p.Expect(t, "ready")
		variable, exported := locate(t, p.PID)
		if exported == r.AtLeast(3, 3) {
			t.Errorf("%s is exported: %t", vmVariable, exported)
		}
		if exported {
			return // this Ruby exports the variable, so no search is needed
		}
		unstripped := filepath.Join(t.TempDir(), "unstripped.so")
		addSymbol(t, library, unstripped, vmVariable, variable)

		t.Run("symtab", func(t *testing.T) {
			dir, err := os.MkdirTemp(filepath.Join(r.Root, "tmp"), "ddtop-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			copyFile(t, unstripped, filepath.Join(dir, soName(t, library)))
			p := r.Start(t, waits, rubytest.Options{Env: []string{"LD_LIBRARY_PATH=/tmp/" + filepath.Base(dir)}})
			p.Expect(t, "ready")
			checkVariable(t, p.PID, variable)
		})
		t.Run("debug file", func(t *testing.T) {
			p := r.Start(t, waits, rubytest.Options{OwnPIDs: true, OwnMounts: true, Name: "parked.rb",
				Wrap: []string{"/proc/self/exe", r.Root, unstripped, buildID}, Env: []string{helperMode + "=enter"}})
			p.Expect(t, "ready")
			checkVariable(t, childOf(t, p.PID), variable)
		})
	})
}

// locate finds a process's VM, and a variable of Ruby that points to the VM. It returns the variable's address in the
// file, and whether the variable is exported.
func locate(t *testing.T, pid int) (variable uint64, exported bool) {
	t.Helper()
	p, m, vm := findVM(t, pid)
	if _, exported = m.Exported(vmVariable); exported {
		return 0, true
	}
	for _, span := range m.Writable() {
		words := make([]byte, span.Len()&^7)
		if err := p.Read(span.Start, words); err != nil {
			t.Fatal(err)
		}
		for at := 0; at+8 <= len(words); at += 8 {
			if attach.Address(binary.LittleEndian.Uint64(words[at:])) == vm {
				return uint64(span.Start - m.Bias + attach.Address(at)), false
			}
		}
	}
	t.Fatal("no variable points to the VM that was found by searching the variables")
	return 0, false
}

// checkVariable checks that ddtop finds Ruby's variable by its symbol, and that the variable leads to the VM.
func checkVariable(t *testing.T, pid int, want uint64) {
	t.Helper()
	p, m, vm := findVM(t, pid)
	s, ok := m.Symbol(vmVariable)
	if !ok || s.Exported || s.Addr != m.Bias+attach.Address(want) {
		t.Fatalf("%s: %+v, %t; want it at %#x of the file at %v", vmVariable, s, ok, want, m.Bias)
	}
	var word [8]byte
	if err := p.Read(s.Addr, word[:]); err != nil {
		t.Fatal(err)
	}
	if got := attach.Address(binary.LittleEndian.Uint64(word[:])); got != vm {
		t.Errorf("the VM was found at %v, its variable says %v", vm, got)
	}
}

func findVM(t *testing.T, pid int) (*attach.Process, *attach.Module, attach.Address) {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := attach.FindRuby(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	version, _, err := m.RubyVersion(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	found, err := ruby.Find(ctx, p, m, version, ruby.FindOptions{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	return p, m, found.VM.Addr
}

// addSymbol copies an ELF file. To the copy it adds a symbol table (.symtab) with one variable, at the given address in
// the file.
func addSymbol(t *testing.T, from, to, name string, address uint64) {
	t.Helper()
	f, err := elf.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_TLS != 0 || address < s.Addr || address >= s.Addr+s.Size {
			continue
		}
		symbol := fmt.Sprintf("%s=%s:%#x,local,object", name, s.Name, address-s.Addr)
		if out, err := exec.Command("objcopy", "--add-symbol", symbol, from, to).CombinedOutput(); err != nil {
			t.Fatalf("objcopy --add-symbol %s: %v: %s", symbol, err, out)
		}
		return
	}
	t.Fatalf("%s has no section at %#x", from, address)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
