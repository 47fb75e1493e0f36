package native_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/native/iterator"
)

// euStack returns the addresses of each thread's stack, innermost first, as elfutils reports them.
func euStack(t *testing.T, pid int) map[int32][]uint64 {
	t.Helper()
	program := rubytest.Program(t, "eu-stack", "elfutils")
	var stderr bytes.Buffer
	cmd := exec.Command(program, "-n", "0", "-p", strconv.Itoa(pid))
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil && len(text) == 0 {
		t.Fatalf("eu-stack: %v: %s", err, &stderr)
	}
	out := make(map[int32][]uint64)
	var tid int
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var n int
		var pc uint64
		if _, err := fmt.Sscanf(lines.Text(), "TID %d:", &tid); err == nil {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "#%d 0x%x", &n, &pc); err == nil {
			out[int32(tid)] = append(out[int32(tid)], pc)
		}
	}
	return out
}

// stacks reads the native stacks of one process.
type stacks struct {
	tasks *kernel.Tasks
	space *native.Space
	// all reads all registers. If it is nil, only the stack pointer and the program counter are known.
	all *iterator.Iterator
}

func openStacks(t testing.TB, pid int) *stacks {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := kernel.OpenTasks(pid, sampler.NewDictionary())
	if err != nil {
		t.Fatal(err)
	}
	space, err := native.NewSpace(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		space.Close()
		tasks.Close()
		p.Close()
	})
	return &stacks{tasks: tasks, space: space}
}

// knowAll makes all registers known. If the machine does not allow this, it skips the test.
func (s *stacks) knowAll(t *testing.T, pid int) {
	t.Helper()
	if err := iterator.Check(); err != nil {
		t.Skip(err)
	}
	var err error
	if s.all, err = iterator.Open(pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.all.Close() })
}

// read returns the addresses of a thread's stack. ok is false if the thread runs, or has run during the read.
func (s *stacks) read(t testing.TB, tid int32) (pcs []uint64, stack native.Stack, ok bool) {
	t.Helper()
	before, ok, err := s.tasks.Standing(tid)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil, stack, false
	}
	regs := native.At(before.SP, before.PC)
	if s.all != nil {
		threads := make(map[int32]iterator.Thread)
		if err := s.all.Read(threads); err != nil {
			t.Fatal(err)
		}
		x, ok := threads[tid]
		if !ok || x.Turns != before.Turns {
			return nil, stack, false
		}
		regs = x.Registers
	}
	stack = s.space.Unwind(regs)
	after, _, err := s.tasks.Standing(tid)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stack.Frames {
		pcs = append(pcs, f.PC)
	}
	return pcs, stack, before == after
}

// compare compares the stacks of threads with the stacks that eu-stack reports. eu-stack stops the threads for a
// moment, and afterwards a waiting thread may wait at another place. So compare ignores a thread that was not at the
// same place before and after eu-stack.
func (s *stacks) compare(t *testing.T, pid int, tids map[string]int32) {
	t.Helper()
	left := make(map[string]int32, len(tids))
	for name, tid := range tids {
		left[name] = tid
	}
	for until := time.Now().Add(rubytest.Timeout); len(left) > 0; {
		if time.Now().After(until) {
			t.Fatalf("threads that never stand still: %v", left)
		}
		before := make(map[string][]uint64)
		for name, tid := range left {
			if pcs, _, ok := s.read(t, tid); ok {
				before[name] = pcs
			}
		}
		truth := euStack(t, pid)
		for name, want := range before {
			got, stack, ok := s.read(t, left[name])
			if !ok || !slices.Equal(got, want) {
				continue
			}
			if !slices.Equal(got, truth[left[name]]) {
				t.Errorf("%s: %d frames, stopped by %v:\n%#x\neu-stack has %d:\n%#x", name, len(got), stack.Stopped,
					got,
					len(truth[left[name]]), truth[left[name]])
			}
			delete(left, name)
		}
	}
}

// TestStacksEqualElfutils: threads wait in many ways. Their stacks must equal eu-stack's, from the innermost function
// to the thread's start. The test runs once with the two registers that /proc shows, and once with all registers.
func TestStacksEqualElfutils(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartStates(t, rubytest.Options{})
		tids := make(map[string]int32)
		for _, thread := range truth.Threads {
			if thread.TID != 0 {
				tids[thread.Name] = thread.TID
			}
		}
		if len(tids) < 30 {
			t.Fatalf("%d threads", len(tids))
		}
		s := openStacks(t, p.PID)
		t.Run("proc", func(t *testing.T) { s.compare(t, p.PID, tids) })
		t.Run("iterator", func(t *testing.T) {
			s.knowAll(t, p.PID)
			s.compare(t, p.PID, tids)
		})
	})
}

// TestLibraryWithFramePointers: to unwind a frame of libpq, ddtop needs the register rbp, which /proc does not show. A
// thread waits in libpq for PostgreSQL. If ddtop knows all registers, the thread's stack must equal eu-stack's. If rbp
// is not known, the stack must end in libpq.
func TestLibraryWithFramePointers(t *testing.T) {
	ruby := rubytest.Program(t, "ruby", "ruby")
	if text, err := exec.Command(ruby, "-rpg", "-e", "0").CombinedOutput(); err != nil {
		rubytest.Skip(t, "needs Ruby's pg: apt-get install ruby-pg (%s)", bytes.TrimSpace(text))
	}
	pid := startReady(t, exec.Command(ruby, "-rpg", "-e", `
		$stdout.sync = true
		db = PG.connect(host: "127.0.0.1", port: ARGV.fetch(0), user: "ddtop", dbname: "postgres")
		puts "ready"
		db.sync_exec_params("select pg_sleep($1)", [1000])`, servertest.Postgres(t)))
	s := openStacks(t, pid)
	named := func() (names []string, stopped error) {
		t.Helper()
		for until := time.Now().Add(rubytest.Timeout); !slices.Contains(names, "poll"); {
			if time.Now().After(until) {
				t.Fatalf("the thread is in %v", names)
			}
			names = nil
			_, stack, _ := s.read(t, int32(pid))
			for _, f := range s.space.Names(stack.Frames) {
				names = append(names, f.Name)
			}
			stopped = stack.Stopped
		}
		return names, stopped
	}
	var stop *native.Stop
	if names, err := named(); !errors.As(err, &stop) || stop.Library != "libpq" || !stop.Unknown() {
		t.Errorf("with the registers of /proc: %v, stopped by %v", names, err)
	}
	s.knowAll(t, pid)
	s.compare(t, pid, map[string]int32{"main": int32(pid)})
	names, err := named()
	if at := slices.Index(names, "PQgetResult"); err != nil || names[0] != "poll" || slices.Index(names, "rb_nogvl") < at {
		t.Errorf("with all registers: %v, stopped by %v", names, err)
	}
}

// startReady starts a program and waits until it prints "ready". The program ends with the test.
func startReady(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rubytest.StartTied(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}

// TestSignalHandlers: a stack that contains signal handlers equals eu-stack's. One of the handlers runs on a separate
// stack.
func TestSignalHandlers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "signals")
	gcc := rubytest.Program(t, "gcc", "gcc libc6-dev")
	if text, err := exec.Command(gcc, "-O1", "-o", program, "testdata/signals.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, text)
	}
	pid := startReady(t, exec.Command(program))
	s := openStacks(t, pid)
	s.compare(t, pid, map[string]int32{"main": int32(pid)})
	_, stack, _ := s.read(t, int32(pid))
	var names []string
	for _, f := range s.space.Names(stack.Frames) {
		names = append(names, f.Name)
	}
	for _, want := range []string{"inner_handler", "outer_handler", "main"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %s", want, strings.Join(names, " "))
		}
	}
}
