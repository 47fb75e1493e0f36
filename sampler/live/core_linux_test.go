package live

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// gcore lets gdb write a core of a living process, which continues. The result whole is false if gdb reports that it
// could not read some memory. The core has zeros in place of this memory.
func gcore(t *testing.T, pid int) (path string, whole bool) {
	t.Helper()
	rubytest.Program(t, "gcore", "gdb")
	prefix := filepath.Join(t.TempDir(), "core")
	out, err := exec.Command("gcore", "-o", prefix, fmt.Sprint(pid)).CombinedOutput()
	path = fmt.Sprintf("%s.%d", prefix, pid)
	if _, statErr := os.Stat(path); statErr != nil {
		t.Fatalf("gcore wrote no core: %v: %s", err, out)
	}
	const lost = "Memory read failed"
	t.Logf("gdb could not read %d pieces of memory", strings.Count(string(out), lost))
	return path, !strings.Contains(string(out), lost)
}

// kernelCore makes the kernel write a core of a process, by killing the process with a signal.
func kernelCore(t *testing.T, p *rubytest.Process) string {
	t.Helper()
	// SIGTRAP is the only usable signal: Ruby handles all other signals that make the kernel write a core.
	return kernelCoreBy(t, p, func() { p.Signal(t, syscall.SIGTRAP) })
}

// kernelCoreBy is like kernelCore, but calls the function die to end the process.
func kernelCoreBy(t *testing.T, p *rubytest.Process, die func()) string {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(pattern))
	if strings.ContainsAny(name, "|/%") {
		rubytest.Skip(t, "the kernel gives cores to %q", name)
	}
	if uses, err := os.ReadFile("/proc/sys/kernel/core_uses_pid"); err == nil && strings.TrimSpace(string(uses)) != "0" {
		name = fmt.Sprintf("%s.%d", name, p.PID)
	}
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(p.PID, unix.RLIMIT_CORE, &all, nil); err != nil {
		rubytest.Skip(t, "the limit on cores can't be lifted: %v", err)
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	die()
	p.Wait(t)
	path := filepath.Join(dir, name)
	t.Cleanup(func() { os.Remove(path) })
	return path
}

func openCore(t *testing.T, path, root string) *Core {
	t.Helper()
	c, err := OpenCore(context.Background(), path, attach.CoreFiles{Root: root}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestCoreTruth compares the threads in a core that the kernel wrote with what the parked program reports about them,
// frame by frame.
func TestCoreTruth(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		began := time.Now().Truncate(time.Second) // files may have their times in whole seconds
		// The paths of mapped files in the core are as the process saw them, inside its own root. So OpenCore needs the
		// path of this root.
		compareCore(t, openCore(t, kernelCore(t, p), r.Root), p, truth, began, true)
	})
}

// TestCoreOfGDB is like TestCoreTruth, but for a core that gdb's gcore wrote. One Ruby is enough, because gdb writes a
// core in the same way for every Ruby.
func TestCoreOfGDB(t *testing.T) {
	rubytest.Long(t) // gdb reads libruby's debug information first
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		began := time.Now().Truncate(time.Second)
		path, whole := gcore(t, p.PID)
		c := openCore(t, path, "")
		compareCore(t, c, p, truth, began, whole)
		compareNative(t, c, euStackOfCore(t, p, path))
	})
}

// compareCore compares the threads in a core with the program's own report. The core must have been written after the
// time in the parameter began. The parameter whole is true if the core has all of the memory.
func compareCore(t *testing.T, c *Core, p *rubytest.Process, truth rubytest.Truth, began time.Time, whole bool) {
	t.Helper()
	s, err := c.Once(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	info := c.Process()
	at := info.WallTime(s.TimeNS)
	if info.PID != p.PID || info.RubyVersion != truth.Ruby || info.RubyDescription != truth.Description || at.Before(began) || at.After(time.Now()) {
		t.Errorf("the core is of %d, %q, at %v; want %d, %q, after %v", info.PID, info.RubyDescription, at, p.PID, truth.Description, began)
	}
	found, frames := 0, 0
	for i := range s.Threads {
		th := &s.Threads[i]
		named, _ := c.Dictionary().Thread(th.ID)
		want, ok := truth.Thread(named.Name)
		if !ok {
			continue
		}
		found++
		if want.TID != 0 && th.TID != want.TID || th.Status.String() != want.Status {
			t.Errorf("%s: tid %d, %s; Ruby says %d, %s", named.Name, th.TID, th.Status, want.TID, want.Status)
		}
		if !whole && th.Quality&sampler.StackFailed != 0 {
			t.Logf("%s: its stack is missing in the core, and said to be", named.Name)
			continue
		}
		if diff := coreDifference(c.Dictionary(), th.Stack, want.Frames); diff != "" {
			t.Errorf("%s: %s", named.Name, diff)
		}
		frames += len(want.Frames)
	}
	if found != len(truth.Threads) || found < 20 {
		t.Errorf("%d threads of %d were found", found, len(truth.Threads))
	}
	t.Logf("Ruby %s: %d threads, %d frames", truth.Ruby, found, frames)
}

func coreDifference(dict *sampler.Dictionary, stack sampler.StackID, want []rubytest.TruthFrame) string {
	got := dict.Frames(stack, nil)
	if len(got) != len(want) {
		return fmt.Sprintf("%d frames, Ruby says %d", len(got), len(want))
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	for i, id := range got {
		f := dict.Frame(id)
		if f.Path != text(want[i].Path) || f.AbsolutePath != text(want[i].AbsolutePath) || f.Line != want[i].Line {
			return fmt.Sprintf("frame %d is %s:%d, Ruby says %s:%d", i, f.Path, f.Line, text(want[i].Path), want[i].Line)
		}
	}
	return ""
}

// TestCoreStates compares the states of threads in a core with what the program reports about its threads. A state that
// the memory shows must be right. A state that only the kernel could name must be unknown. The native stacks must equal
// those in eu-stack's output. The stacks of waiting threads must fit their Ruby frames.
func TestCoreStates(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartStates(t, rubytest.Options{})
		path := kernelCore(t, p)
		c := openCore(t, path, r.Root)
		s, err := c.Once(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		compared, unknown := 0, 0
		for i, st := range gvl.NewClassifier(c.Process(), c.Dictionary()).Classify(s) {
			named, _ := c.Dictionary().Thread(s.Threads[i].ID)
			want, ok := truth.Thread(named.Name)
			if !ok || len(want.States) == 0 {
				continue
			}
			compared++
			got := st.State.String()
			if got == "unknown" {
				unknown++
			}
			matches := got == "unknown"
			for _, w := range want.States {
				matches = matches || got == w
			}
			if !matches {
				t.Errorf("%s: %s, the program says %v", named.Name, got, want.States)
			}
		}
		if compared < 10 || unknown > compared/2 {
			t.Errorf("%d states compared, %d of them unknown", compared, unknown)
		}
		t.Logf("%d states compared, %d of them unknown", compared, unknown)
		compareNative(t, c, euStackOfCore(t, p, path))
		checkNativeStates(t, c, truth)
	})
}

// TestCoreErrors: OpenCore must return an error for a core that is cut short, and for a core whose mapped files are
// missing. It must also refuse the given files if none of them belongs to the core.
func TestCoreErrors(t *testing.T) {
	r := rubytest.One(t)
	p := r.Start(t, "STDOUT.puts :ready; STDOUT.flush; STDIN.gets", rubytest.Options{})
	p.Expect(t, "ready")
	path := kernelCore(t, p)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, whole[:len(whole)/3], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCore(context.Background(), cut, attach.CoreFiles{Root: r.Root}, Options{}); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a core cut short: %v", err)
	}
	if _, err := OpenCore(context.Background(), path, attach.CoreFiles{Root: t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "--exe") {
		t.Errorf("without the mapped files: %v", err)
	}
	if _, err := OpenCore(context.Background(), path, attach.CoreFiles{Files: []string{"/bin/true", "/bin/false"}}, Options{}); err == nil {
		t.Error("files that stand for none")
	}
}
