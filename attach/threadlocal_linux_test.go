package attach

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// compile runs gcc in a folder. The sources are files of testdata.
func compile(t *testing.T, dir string, args ...string) {
	t.Helper()
	for i, a := range args {
		if filepath.Ext(a) == ".c" {
			path, err := filepath.Abs(filepath.Join("testdata", a))
			if err != nil {
				t.Fatal(err)
			}
			args[i] = path
		}
	}
	cmd := exec.Command(rubytest.Program(t, "gcc", "gcc libc6-dev"), append([]string{"-w", "-O1"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// TestThreadLocal: ddtop finds each thread's copy of a variable at the address that the thread itself reports. This
// holds for a library and for the program, and for every way in which code can access the variable.
func TestThreadLocal(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		rubytest.Skip(t, "thread-local variables are told on x86_64 alone")
	}
	type way struct {
		name     string
		linked   bool // the program is linked with the library; if false, it loads the library later
		library  []string
		program  []string
		vector   bool // the variable is in a block that the thread's vector points to
		noSymbol bool
	}
	gnu, descriptor, static := "-mtls-dialect=gnu", "-mtls-dialect=gnu2", "-ftls-model=initial-exec"
	ways := []way{
		{name: "linked, general dynamic", linked: true, library: []string{gnu}, vector: true},
		{name: "linked, descriptor", linked: true, library: []string{descriptor}},
		{name: "linked, initial-exec", linked: true, library: []string{static}},
		{name: "linked, symbolic", linked: true, library: []string{gnu, "-Wl,-Bsymbolic"}, vector: true},
		{name: "linked, not to be replaced", linked: true, library: []string{gnu, `-DVISIBILITY="protected"`}, vector: true},
		{name: "opened, general dynamic", library: []string{gnu}, vector: true},
		{name: "opened, descriptor", library: []string{descriptor}},
		{name: "opened, initial-exec", library: []string{static}},
		{name: "opened, general dynamic, large", library: []string{gnu, "-DMORE"}, vector: true},
		{name: "opened, descriptor, large", library: []string{descriptor, "-DMORE"}, vector: true},
		{name: "opened, stripped", library: []string{descriptor, "-s"}},
		{name: "program", program: []string{"-rdynamic"}},
		{name: "program, aligned", program: []string{"-rdynamic", "-DALIGNED"}},
		{name: "program, large", program: []string{"-rdynamic", "-DMORE"}},
		{name: "program, not moved", program: []string{"-rdynamic", "-no-pie", "-fno-pie"}},
		{name: "program, all linked", program: []string{"-static-pie", "-rdynamic"}, noSymbol: true},
		{name: "not exported", program: []string{`-DVISIBILITY="hidden"`}, noSymbol: true},
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			dir := t.TempDir()
			visible := func(args []string) []string {
				if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-DVIS") }) {
					return args
				}
				return append(slices.Clone(args), `-DVISIBILITY="default"`)
			}
			program := []string{"-o", "program", "threadlocal.c"}
			switch {
			case w.program != nil:
				program = append(append(program, "-DLINKED", "tlslibrary.c"), visible(w.program)...)
			case w.linked:
				program = append(program, "-DLINKED", "library.so", "-Wl,-rpath,$ORIGIN")
			}
			if w.program == nil {
				compile(t, dir, append([]string{"-shared", "-fPIC", "-o", "library.so", "tlslibrary.c"}, visible(w.library)...)...)
			}
			compile(t, dir, append(program, "-ldl", "-pthread")...)
			cmd := exec.Command(filepath.Join(dir, "program"), filepath.Join(dir, "library.so"))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			truth := make(map[Address]Address)
			for lines := bufio.NewScanner(out); len(truth) < 5 && lines.Scan(); {
				var thread, at Address
				if _, err := fmt.Sscan(lines.Text(), &thread, &at); err != nil {
					t.Fatal(err)
				}
				truth[thread] = at
			}
			p, err := Open(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			mappings, err := p.Maps()
			if err != nil {
				t.Fatal(err)
			}
			v, err := p.ThreadLocal("otel_thread_ctx_v1", mappings)
			if w.noSymbol {
				if !errors.Is(err, mapped.ErrNoThreadLocal) {
					t.Errorf("%+v, %v", v, err)
				}
				return
			}
			if err != nil || (v.Module != 0) != w.vector {
				t.Fatalf("%+v, %v", v, err)
			}
			for thread, want := range truth {
				at, via, _, err := v.Locate(p, thread, nil)
				if err != nil || at != want && want != 0 {
					t.Errorf("the thread at %v has it at %v, not %v: %v", thread, want, at, err)
				}
				// the thread has not used the variable yet, but already has memory for it, which must hold zeros
				if want == 0 && at != 0 {
					var b [8]byte
					if err := p.Read(at, b[:]); err != nil || b != [8]byte{} {
						t.Errorf("a thread that has not used it has %x at %v: %v", b, at, err)
					}
				}
				for _, w := range via {
					var b [8]byte
					if err := p.Read(w.Addr, b[:]); err != nil || binary.LittleEndian.Uint64(b[:]) != w.Value {
						t.Errorf("at %v there is %x, not %x: %v", w.Addr, b, w.Value, err)
					}
				}
			}
		})
	}
}
