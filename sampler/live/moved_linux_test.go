package live_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// moved opens a process with FromMoved: ddtop follows its threads by the kernel's reports of threads that get or lose a
// CPU.
func moved(t *testing.T, pid int) *live.Source {
	t.Helper()
	s, err := live.Open(t.Context(), pid, live.Options{From: live.FromMoved})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// perfDescriptors counts the descriptors of perf events in this process. ddtop needs them to follow threads.
func perfDescriptors(t *testing.T) int { return descriptors(t, "perf_event") }

// descriptors returns how many open descriptors of the given kind this process has.
func descriptors(t *testing.T, kind string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if link, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && strings.Contains(link, kind) {
			n++
		}
	}
	return n
}

// TestMovedTakesOver: once ddtop knows the changes of the GVL, each sample's changes must begin where the previous
// sample's changes end, without a gap in time. When the process ends, ddtop must stop following it and leave no
// descriptor open.
func TestMovedTakesOver(t *testing.T) {
	before := perfDescriptors(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, switching, rubytest.Options{})
		p.Line(t)
		s := moved(t, p.PID)
		c := newChanging(t)
		var known atomic.Int64
		ended := make(chan error, 1)
		go func() {
			ended <- s.Run(t.Context(), func(x *sampler.Sample) {
				c.take(x)
				known.Store(int64(c.known))
			})
		}()
		for deadline := time.Now().Add(rubytest.Timeout); known.Load() < 20; time.Sleep(time.Millisecond) {
			if x := s.SwitchStatus(); strings.Contains(x.Ended, "perf") {
				p.Send(t, "end")
				<-ended
				rubytest.Skip(t, "%s", x.Ended)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d samples with changes, and no more: %+v", known.Load(), s.SwitchStatus())
			}
		}
		if x := s.SwitchStatus(); !x.On || !x.Wanted || x.Kind != "moved" || x.Ended != "" || x.Records == 0 || x.Failed != 0 {
			t.Errorf("%+v", x)
		}
		p.Send(t, "end")
		if err := <-ended; !errors.Is(err, sampler.ErrEnded) {
			t.Error(err)
		}
		if x := s.SwitchStatus(); x.On || !strings.Contains(x.Ended, "exited") {
			t.Errorf("after the end: %+v", x)
		}
		if c.fresh > 1 || c.changes == 0 {
			t.Errorf("%d changes, which began anew %d times", c.changes, c.fresh)
		}
	})
	if n := perfDescriptors(t); n > before {
		t.Errorf("%d descriptors are left", n-before)
	}
}

// churning is a program that makes threads that live for a few ms. After a line of input it replaces itself by another
// program.
const churning = `
Thread.report_on_exception = false
Thread.new { loop { 8.times.map { Thread.new { sleep 0.002; 500.times { |i| i * i } } }.each(&:join) } }
Thread.new { loop { Thread.new { Thread.current.kill }.join } }
puts 1; $stdout.flush
$stdin.gets
exec RbConfig.ruby, "-e", "sleep 60"
`

// TestMovedChurn: ddtop must follow threads that start and end all the time, and close a thread's descriptor when the
// thread ends. When the process calls exec, ddtop must stop following it.
func TestMovedChurn(t *testing.T) {
	before := perfDescriptors(t)
	r := rubytest.One(t)
	p := r.Start(t, churning, rubytest.Options{})
	p.Line(t)
	s := moved(t, p.PID)
	most, n, told := 0, 0, false
	err := s.Run(t.Context(), func(x *sampler.Sample) {
		if !x.Changes.Known() || told {
			return
		}
		most = max(most, perfDescriptors(t)-before)
		if n++; n == 50 {
			if st := s.SwitchStatus(); !st.On {
				t.Errorf("%+v", st)
			}
			told = true
			p.Send(t, "exec")
		}
	})
	if !errors.Is(err, sampler.ErrEnded) {
		t.Error(err)
	}
	if st := s.SwitchStatus(); st.On || !strings.Contains(st.Ended, "exec") {
		t.Errorf("after exec: %+v", st)
	}
	if n < 50 || most == 0 || most > 100 {
		t.Errorf("%d samples with changes; up to %d threads were followed at once", n, most)
	}
}

// manyThreads has 300 threads that sleep.
const manyThreads = `
300.times { Thread.new { sleep } }
puts 1; $stdout.flush
$stdin.gets
`

// refusal is an environment variable. If it is set, this test binary runs as a helper process in which the kernel
// forbids something, such as perf_event_open. Its value is the reason that ddtop must report.
const refusal = "DDTOP_TEST_REFUSAL"

// strictest is the reason that ddtop must report if the machine forbids perf to all processes without privileges.
// Debian's kernels have level 3 of perf_event_paranoid for this. Other kernels do not know level 3.
const strictest = "perf is forbidden by kernel.perf_event_paranoid=3"

// TestMovedRefused: if the kernel does not report when threads get or lose a CPU, ddtop must poll the process and give
// the reason. The test tries three causes: a filter of system calls as in containers, a machine that forbids perf, and
// too few descriptors.
func TestMovedRefused(t *testing.T) {
	switch os.Getenv(refusal) {
	case "":
		for name, want := range map[string]string{
			"seccomp": "perf is forbidden by seccomp", "paranoid": strictest, "descriptors": "ulimit -n",
		} {
			t.Run(name, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMovedRefused$")
				if want == strictest {
					if os.Geteuid() != 0 {
						rubytest.Skip(t, "a mount namespace needs root")
					}
					cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
				}
				cmd.Env = append(os.Environ(), refusal+"="+want)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		return
	case "ulimit -n":
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 400, Max: 400}); err != nil {
			t.Fatal(err)
		}
	case strictest:
		level := filepath.Join(t.TempDir(), "level")
		if err := os.WriteFile(level, []byte("3\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(level, "/proc/sys/kernel/perf_event_paranoid", "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount("/proc/sys/kernel/perf_event_paranoid", unix.MNT_DETACH)
		forbid(t, unix.SYS_PERF_EVENT_OPEN)
	default:
		forbid(t, unix.SYS_PERF_EVENT_OPEN)
	}
	p := rubytest.One(t).Start(t, manyThreads, rubytest.Options{})
	p.Line(t)
	s := moved(t, p.PID)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	after, deadline := 0, time.Now().Add(rubytest.Timeout)
	if err := s.Run(ctx, func(x *sampler.Sample) {
		if x.Changes.Known() {
			t.Error("changes are told")
		}
		if s.SwitchStatus().Ended != "" || time.Now().After(deadline) {
			if after++; after > 10 {
				cancel()
			}
		}
	}); err != nil {
		t.Error(err)
	}
	if st := s.SwitchStatus(); st.On || !st.Wanted || !strings.Contains(st.Ended, os.Getenv(refusal)) {
		t.Errorf("%+v, without %q", st, os.Getenv(refusal))
	}
	if n := perfDescriptors(t); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// TestMovedTwice: two Sources follow a process by the kernel's reports of threads that get or lose a CPU. A third
// follows it by its thread switches. When one of the three ends, the others must continue.
func TestMovedTwice(t *testing.T) {
	r := rubytest.One(t)
	p := r.Start(t, switching, rubytest.Options{})
	p.Line(t)
	all := []*live.Source{moved(t, p.PID), moved(t, p.PID)}
	if live.CheckSwitches() == nil {
		s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all = append(all, s)
	}
	const least = 10 // how many samples with changes must come before one Source ends, and again after it
	first, firstLeft := context.WithCancel(t.Context())
	defer firstLeft()
	var know sync.WaitGroup // done when each Source has known changes
	know.Add(len(all))
	go func() { know.Wait(); firstLeft() }()
	var runs sync.WaitGroup
	for i, s := range all {
		runs.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
			defer cancel()
			if i == 0 {
				defer context.AfterFunc(first, cancel)()
			}
			known, after := 0, 0
			said := sync.OnceFunc(know.Done)
			defer said()
			c := newChanging(t)
			if err := s.Run(ctx, func(x *sampler.Sample) {
				c.take(x)
				if !x.Changes.Known() {
					return
				}
				if known++; known == least {
					said()
				}
				if i > 0 && first.Err() != nil {
					if after++; after == least {
						cancel()
					}
				}
			}); err != nil {
				t.Error(err)
			}
			st := s.SwitchStatus()
			if known < least || i > 0 && after < least || st.Ended != "" || st.Lost != 0 || c.fresh != 1 {
				t.Errorf("%d: %d samples with changes, %d after one had left, began anew %d times: %+v",
					i, known, after, c.fresh, st)
			}
		})
	}
	runs.Wait()
}

// forbid makes a system call of this process fail with EPERM from now on.
func forbid(t *testing.T, call uint32) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		rubytest.Skip(t, "a filter of system calls cannot be made here: %v", e)
	}
}
