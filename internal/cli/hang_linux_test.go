package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// quitWithin limits how long a test waits for the end of ddtop while a read of the target hangs. ddtop promises to end
// within two seconds if it gets a CPU. The limit is longer because of busy machines. It need not be short, because a
// broken ddtop would never end.
const quitWithin = rubytest.Timeout

// tasksOf returns the folders of a process's threads in /proc.
func tasksOf(t *testing.T, pid int) []string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads of process %d: %v, %v", pid, tasks, err)
	}
	return tasks
}

// betweenTicks matches the system call in which ddtop's sampling thread sleeps until its next tick. Usually this is
// clock_nanosleep to an absolute time. If a record of a thread switch can end the sleep early, the call is a futex with
// a mask and a time limit. The futexes of Go's runtime have no mask.
var betweenTicks = regexp.MustCompile(fmt.Sprintf(`^(%d %#x %#x|%d 0x[0-9a-f]+ 0x89 0x0 0x[0-9a-f]+) `,
	unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, unix.SYS_FUTEX))

// awaitTicks waits until ddtop has ticked about thirty times. It counts how often it finds the sampling thread asleep
// until its next tick. The kernel's own count of a thread's sleeps is no help: on a busy machine a thread sleeps a
// hundred times within its first tick.
//
// The target must be busy and the CPU budget must be off. Otherwise ddtop samples at lower rates, and sleeps longer and
// in another call.
func awaitTicks(t *testing.T, pid int) {
	t.Helper()
	seen, last := make(map[string]int), make(map[string]int)
	until(t, func() bool {
		most := 0
		for _, task := range tasksOf(t, pid) {
			text, err := os.ReadFile(filepath.Join(task, "syscall"))
			if n := slept(task); err == nil && betweenTicks.Match(text) && n > last[task] {
				last[task] = n
				seen[task]++
			}
			most = max(most, seen[task])
		}
		return most >= 30
	}, "thirty ticks")
}

// awaitSleeps waits until ddtop's thread with a raised priority has gone to sleep the given number of times since the
// call.
func awaitSleeps(t *testing.T, pid, times int) {
	t.Helper()
	from := -1
	until(t, func() bool {
		for _, task := range tasksOf(t, pid) {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				t.Fatal(err)
			}
			if a, err := unix.SchedGetAttr(tid, 0); err != nil || a.Nice >= 0 {
				continue
			}
			n := slept(task)
			if from < 0 {
				from = n
			}
			return n >= from+times
		}
		return false
	}, "%d ticks", times)
}

// awaitRaised waits until ddtop has raised the priority of its sampling thread. If pause is true, it also waits for a
// raised priority of the thread that stops the target.
func awaitRaised(t *testing.T, pid int, pause bool) {
	t.Helper()
	threads := 1
	if pause {
		threads = 2
	}
	until(t, func() bool {
		raised := 0
		for _, task := range tasksOf(t, pid) {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				t.Fatal(err)
			}
			if a, err := unix.SchedGetAttr(tid, 0); err == nil && a.Nice < 0 {
				raised++
			}
		}
		return raised == threads
	}, "%d threads with a raised priority", threads)
}

// slept returns how often a thread has gone to sleep so far.
func slept(task string) int {
	text, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		return 0 // the thread has ended
	}
	_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:\t")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		return 0
	}
	return n
}

// awaitHang waits until a thread of ddtop is in a read of memory (process_vm_readv) that does not return.
func awaitHang(t *testing.T, pid int) {
	t.Helper()
	reading := fmt.Sprintf("%d ", unix.SYS_PROCESS_VM_READV)
	type stand struct {
		slept int
		since time.Time
	}
	stands := make(map[string]stand)
	until(t, func() bool {
		for _, task := range tasksOf(t, pid) {
			text, err := os.ReadFile(filepath.Join(task, "syscall"))
			n, was := slept(task), stands[task]
			switch {
			case err != nil || !strings.HasPrefix(string(text), reading): // the thread is in another call, or has ended
				delete(stands, task)
			case was.since.IsZero() || was.slept != n:
				stands[task] = stand{n, time.Now()}
			case time.Since(was.since) > 300*time.Millisecond:
				return true
			}
		}
		return false
	}, "a read that hangs")
}

// goesOn checks that no thread of a process is stopped or traced (ptrace), and that the process still works.
func goesOn(t *testing.T, p *rubytest.Process) {
	t.Helper()
	until(t, func() bool {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID))
		if err != nil || len(files) < 3 {
			t.Fatalf("threads of the target: %v, %v", files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte("\nState:\tt")) || bytes.Contains(text, []byte("\nState:\tT")) {
				return false
			}
		}
		return true
	}, "no thread of the target being stopped")
	count := func() string {
		p.Send(t, "count")
		return p.Line(t)
	}
	first := count()
	until(t, func() bool { return count() != first }, "the target's going on")
}

// letGoOf checks that the target still works and that ddtop has not left it stopped. It restores the missing page, and
// lets the target end. The target must end with its own exit code.
func letGoOf(t *testing.T, p *rubytest.Process) {
	t.Helper()
	goesOn(t, p)
	p.Give(t)
	p.Send(t, "exit")
	if code := p.Wait(t); code != 7 {
		t.Errorf("the target's exit code is %d, want 7", code)
	}
}

// TestQuitsWhileAReadHangs: a page of the target's memory is missing, so that a read of this page never returns. A
// signal must still end every command of ddtop. The output must have what ddtop measured before. The target continues,
// even if ddtop stops it for each sample (--pause).
func TestQuitsWhileAReadHangs(t *testing.T) {
	r := rubytest.One(t)
	holds := func(path, text string) func(*testing.T, result) {
		return func(t *testing.T, got result) {
			t.Helper()
			out := got.out
			if path != "" {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				out = string(data)
			}
			if !strings.Contains(out, text) {
				t.Errorf("%q is not in what it wrote: %.1000s", text, out)
			}
		}
	}
	stat := func(t *testing.T, got result) {
		t.Helper()
		var s struct{ Samples int }
		if err := json.Unmarshal([]byte(got.out), &s); err != nil || s.Samples < 20 {
			t.Errorf("%d samples in %.300s: %v", s.Samples, got.out, err)
		}
	}
	// The output files are in memory, because ddtop waits only a short time for a slow disk.
	inMemory, err := os.MkdirTemp("/dev/shm", "ddtop-test-")
	if err != nil {
		inMemory = t.TempDir()
	} else {
		t.Cleanup(func() { _ = os.RemoveAll(inMemory) })
	}
	folded, recorded := filepath.Join(inMemory, "x.folded"), filepath.Join(inMemory, "x.ddtop")
	replayed := func(t *testing.T, _ result) {
		t.Helper()
		got := run(t, "report", recorded, "--json")
		got.want(t, 0)
		stat(t, got)
	}
	for _, c := range []struct {
		args   []string
		signal syscall.Signal
		check  func(*testing.T, result)
		long   bool
	}{
		{[]string{"stat", "--json", "-d", "10m"}, syscall.SIGINT, stat, false},
		{[]string{"stat", "--json", "-d", "10m", "--pause"}, syscall.SIGTERM, stat, true},
		{[]string{"record", "-d", "10m", "--format", "collapsed", "-o", folded}, syscall.SIGTERM, holds(folded, "busy;"), true},
		{[]string{"record", "-d", "10m", "--pause", "--format", "ddtop", "-o", recorded}, syscall.SIGINT, replayed, false},
		{[]string{"dump", "-d", "10m"}, syscall.SIGTERM, holds("", "busy"), false},
		{[]string{"dump", "-d", "10m", "--pause"}, syscall.SIGINT, holds("", "busy"), true},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			if c.long {
				rubytest.Long(t)
			}
			p := r.StartMissing(t, rubytest.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd, out, errs := prepare(ctx, append(c.args, "--overhead", "off", "-p", strconv.Itoa(p.PID))...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitTicks(t, cmd.Process.Pid)
			awaitRaised(t, cmd.Process.Pid, slices.Contains(c.args, "--pause"))
			p.Take(t)
			awaitHang(t, cmd.Process.Pid)
			goesOn(t, p)
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			late := time.AfterFunc(quitWithin, cancel) // cancel sends SIGKILL
			defer late.Stop()
			got := finish(t, cmd, out, errs)
			t.Logf("it took %v", time.Since(begun))
			got.want(t, 0, "has not come back for")
			c.check(t, got)
			letGoOf(t, p)
		})
	}
}

// TestDumpOfAHungTarget: if a read of the target already hangs when ddtop starts, ddtop has nothing to print. A signal
// must still end it, and it must report that the process did not answer.
func TestDumpOfAHungTarget(t *testing.T) {
	for _, args := range [][]string{{"dump"}, {"dump", "--pause"}, {"stat"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			p := rubytest.One(t).StartMissing(t, rubytest.Options{})
			p.Take(t)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd, out, errs := prepare(ctx, append(args, "-p", strconv.Itoa(p.PID))...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitHang(t, cmd.Process.Pid)
			goesOn(t, p)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(quitWithin, cancel)
			defer late.Stop()
			finish(t, cmd, out, errs).want(t, 4, "it did not answer: reading its memory has not come back")
			letGoOf(t, p)
		})
	}
}

// TestScreenWhileAReadHangs: if a read of the target hangs, the screen shows that there is no answer. A key or a signal
// still ends ddtop.
func TestScreenWhileAReadHangs(t *testing.T) {
	r := rubytest.One(t)
	for _, c := range []struct {
		name  string
		pause bool
		leave func(x *terminal)
	}{
		{"q", false, func(x *terminal) { x.press(t, "q") }},
		{"ctrl-c", true, func(x *terminal) { x.press(t, "\x03") }},
		{"SIGTERM", true, signalled(t, syscall.SIGTERM)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "SIGTERM" {
				rubytest.Long(t)
			}
			p := r.StartMissing(t, rubytest.Options{})
			x := inTerminal(t, "-p", strconv.Itoa(p.PID), "--overhead", "off", fmt.Sprintf("--pause=%v", c.pause))
			x.see(t, "missing.rb")
			awaitTicks(t, x.cmd.Process.Pid)
			awaitRaised(t, x.cmd.Process.Pid, c.pause)
			p.Take(t)
			awaitHang(t, x.cmd.Process.Pid)
			goesOn(t, p)
			x.see(t, "no answer for")
			late := time.AfterFunc(quitWithin, func() { _ = x.cmd.Process.Kill() })
			defer late.Stop()
			begun := time.Now()
			c.leave(x)
			x.leaves(t, 0)
			t.Logf("it took %v", time.Since(begun))
			letGoOf(t, p)
		})
	}
}
