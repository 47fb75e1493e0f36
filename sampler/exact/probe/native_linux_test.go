package probe

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestTranslated: ddtop refuses a process that valgrind runs. The name of the program file is enough to recognize
// valgrind. The code that makes the system calls is enough, too. The process gets no breakpoint and continues.
func TestTranslated(t *testing.T) {
	needBPF(t)
	valgrind := rubytest.Program(t, "valgrind", "valgrind")
	r := hostRuby(t)
	p := r.Start(t, "$stdout.sync = true\n2.times { Thread.new { sleep } }\nputs %q(ready)\nputs $stdin.gets\n$stdin.gets",
		rubytest.Options{Wrap: []string{valgrind, "--tool=none", "--vgdb=no", "-q"}, RubyArgs: []string{"--disable-gems"}})
	p.Expect(t, "ready")
	proc, module, maps := opened(t, p)
	code, err := FindCode(proc, module, maps, CodeOptions{Before33: !r.AtLeast(3, 3)})
	if code.Close(); !errors.Is(err, ErrTranslated) || !errors.Is(err, ErrNoCode) || !strings.Contains(err.Error(), "none-amd64-linux") {
		t.Errorf("%v", err)
	}
	if err := checkThreads(proc, module, maps, false); !errors.Is(err, ErrTranslated) || !strings.Contains(err.Error(), "sleeps in a system call that was made at") {
		t.Errorf("%v", err)
	}
	if n := rubytest.ChangedCode(t, p.PID); n != 0 {
		t.Errorf("%d bytes of its code are not the files'", n)
	}
	p.Send(t, "on")
	p.Expect(t, "on")
}

// TestKnownTranslators: ddtop recognizes a translator by the name of the program file, or of a library that the process
// has loaded. It then refuses the process before it reads any thread.
func TestKnownTranslators(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, want := range map[string]bool{
		"drrun": true, "pinbin": true, "qemu-x86_64-static": true, "memcheck-amd64-linux": true, "valgrind.bin": true, "box64": true, "rr": true,
		"ruby": false, "pinboard": false, "drrunner": false, "puma": false,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, shell, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(file, "-c", "echo ready; read line")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		p, err := attach.Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := knownTranslator(p, nil); errors.Is(err, ErrTranslated) != want {
			t.Errorf("the program %s: %v", name, err)
		}
		for library, loaded := range map[string]bool{"libdynamorio.so": true, "libpinvm.so": true, "vgpreload_core-amd64-linux.so": true,
			"librrpreload.so": true, "libc.so.6": false, "libruby.so.3.4": false} {
			maps := []attach.Mapping{{Inode: 1, Path: "/usr/lib/" + library}}
			if err := knownTranslator(p, maps); errors.Is(err, ErrTranslated) != (want || loaded) {
				t.Errorf("%s with %s: %v", name, library, err)
			}
		}
		p.Close()
		in.Close() // the shell ends with its input
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
			t.Error(err)
		}
	}
}

// TestNative: ddtop accepts a process that the CPU runs itself, whether its threads sleep or compute, and even if it
// has only one thread.
func TestNative(t *testing.T) {
	needBPF(t)
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		for _, program := range []string{"$stdin.gets", "3.times { Thread.new { loop {} } }; loop {}", "loop {}"} {
			p := r.Start(t, "$stdout.sync = true\nputs %q(ready)\n"+program, rubytest.Options{})
			p.Expect(t, "ready")
			proc, module, maps := opened(t, p)
			if err := checkNative(proc, module, maps, false); err != nil {
				t.Errorf("%s: %v", program, err)
			}
			p.Stop(t)
		}
	})
}

// TestCallers: the kernel shows the address of the code that made a system call. The mapping at this address decides
// whether the caller is the C library, another library, or no library.
func TestCallers(t *testing.T) {
	file := func(n attach.Address, path string) attach.Mapping {
		return attach.Mapping{Start: n << 12, End: (n + 1) << 12, Read: true, Exec: true, Inode: uint64(n), Device: "08:01", Path: path}
	}
	anonymous := attach.Mapping{Start: 9 << 12, End: 10 << 12, Read: true, Write: true, Exec: true}
	vdso := attach.Mapping{Start: 10 << 12, End: 11 << 12, Read: true, Exec: true, Path: "[vdso]"}
	own := []attach.Mapping{file(1, "/usr/bin/ruby"), file(2, "/lib/libc.so.6"), file(3, "/lib/ld-linux-x86-64.so.2"), file(4, "/lib/liburing.so.2"),
		file(5, "/lib/libruby.so.3.4"), file(6, "/memfd:code"), file(7, "/lib/libpthread-2.31.so"), file(8, "/lib/ld-musl-x86_64.so.1"), anonymous, vdso}
	c := callers{program: "/usr/bin/ruby", mappings: own}
	for at, want := range map[attach.Address]callerKind{1: noLibrary, 2: theCLibrary, 3: theCLibrary, 4: otherLibrary, 5: otherLibrary, 6: noLibrary, 7: theCLibrary,
		8: theCLibrary, 9: noLibrary, 10: theCLibrary, 11: noLibrary} {
		if got := c.caller(at<<12 + 5); got.kind != want || got.where == "" {
			t.Errorf("at page %d: %+v, want %d", at, got, want)
		}
	}
	c.static = "/usr/bin/ruby"
	if got := c.caller(1<<12 + 5); got.kind != theCLibrary {
		t.Errorf("a static program: %+v", got)
	}
	if err := c.oneLibrary(); !errors.Is(err, ErrTranslated) {
		t.Errorf("glibc and musl: %v", err)
	}
	split := file(2, "/lib/libc.so.6")
	split.Start, split.End, split.Offset = 20<<12, 21<<12, 1<<12
	for name, test := range map[string]struct {
		mappings []attach.Mapping
		fine     bool
	}{
		"one":                 {own[:3], true},
		"its code in two":     {append(own[:3:3], split), true},
		"twice":               {append(own[:3:3], own[1]), false},
		"another of the name": {append(own[:3:3], file(12, "/sysroot/lib/libc.so.6")), false},
	} {
		c.mappings = test.mappings
		if err := c.oneLibrary(); (err == nil) != test.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// awaitStopped waits until a signal has stopped all threads of a process. Each thread stops when it next enters the
// kernel.
func awaitStopped(t *testing.T, proc *attach.Process) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(proc.Path("task/*/stat"))
		if err != nil || len(stats) == 0 {
			t.Fatalf("threads of process %d: %v", proc.PID(), err)
		}
		runs := 0
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if _, after, ok := strings.Cut(string(stat), ") "); err == nil && ok && after[0] != 'T' {
				runs++
			}
		}
		if runs == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d threads do not stop", runs, len(stats))
		}
	}
}

// TestPatched: if a program has changed Ruby's code in memory, ddtop puts no probe there. A breakpoint of another ddtop
// does not count as a change.
func TestPatched(t *testing.T) {
	needBPF(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		proc, module, maps := mapped(t, r)
		o := CodeOptions{Before33: !r.AtLeast(3, 3)}
		code, err := FindCode(proc, module, maps, o)
		if err != nil {
			t.Fatal(err)
		}
		defer code.Close()
		memory, err := os.OpenFile(proc.Path("mem"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		s := code.sites[0]
		for _, b := range []struct {
			text    string
			refused bool
		}{{"\x0f\x0b", true}, {"\xcc", false}} { // ud2, and the breakpoint that another ddtop would set
			was := make([]byte, len(b.text))
			if _, err := memory.ReadAt(was, int64(s.at)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(proc.PID(), unix.SIGSTOP); err != nil { // no thread may run the changed code
				t.Fatal(err)
			}
			awaitStopped(t, proc)
			if _, err := memory.WriteAt([]byte(b.text), int64(s.at)); err != nil {
				t.Fatal(err)
			}
			c, err := findCode(proc, module, maps, o, "amd64", place)
			c.Close()
			if errors.Is(err, errPatched) != b.refused || (err != nil) != b.refused {
				t.Errorf("% x: %v", b.text, err)
			}
			if _, err := memory.WriteAt(was, int64(s.at)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(proc.PID(), unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// hostRuby returns a Ruby of this machine. Another program, such as valgrind, can run it.
func hostRuby(t *testing.T) rubytest.Ruby {
	t.Helper()
	path := rubytest.Program(t, "ruby", "ruby")
	version, err := exec.Command(path, "--disable-gems", "-e", "print RUBY_VERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	return rubytest.Ruby{Name: "host", Version: string(version), Bin: path}
}

// opened returns what FindCode needs of a running Ruby.
func opened(t *testing.T, p *rubytest.Process) (*attach.Process, *attach.Module, []attach.Mapping) {
	t.Helper()
	var module *attach.Module
	proc, err := attach.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(time.Millisecond) {
		if module, err = attach.FindRuby(proc); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { module.Close() })
	maps, err := proc.Maps()
	if err != nil {
		t.Fatal(err)
	}
	return proc, module, maps
}
