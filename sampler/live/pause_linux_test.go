package live_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// pauseHelper is an environment variable. If it is set, this test binary is a helper process. With "sample PID" the
// helper pauses a process a thousand times a second until it is killed. With "trace PID" it traces a thread. With
// "start FD" it starts the file that its parent has open at this descriptor.
const pauseHelper = "DDTOP_TEST_PAUSE_HELPER"

func init() {
	if strings.HasPrefix(os.Getenv(pauseHelper), "start ") {
		// keeps this goroutine on the process's first thread, because the test reads this thread's state
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if what, pid, ok := strings.Cut(os.Getenv(pauseHelper), " "); ok {
		n, err := strconv.Atoi(pid)
		if err == nil {
			err = helpPausing(what, n)
		}
		fmt.Println("ended:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func helpPausing(what string, pid int) error {
	switch what {
	case "start":
		fmt.Println("starting")
		return exec.Command(fmt.Sprintf("/proc/%d/fd/%d", os.Getppid(), pid)).Start() // Go starts the file with vfork
	case "trace":
		runtime.LockOSThread()
		_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		fmt.Println("tracing", errno)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	s, err := live.Open(context.Background(), pid, live.Options{Pause: true, StackRate: 1000})
	if err != nil {
		return err
	}
	said := false
	return s.Run(context.Background(), func(sample *sampler.Sample) {
		if sample.Reads.Pauses > 2 && !said {
			said = true
			fmt.Println("pausing")
		}
	})
}

// startHelper starts this test binary as a helper process (pauseHelper), and waits for the helper's first line.
func startHelper(t *testing.T, what string, pid int) (cmd *exec.Cmd, line string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", pauseHelper, what, pid))
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the helper said nothing: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

// kill ends a helper and waits for its end. A second call does nothing.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill() // an error means that the helper has ended
		_ = cmd.Wait()         // the error says that the helper was killed
	}
}

// stoppedThreads lists the threads of a process that are stopped or traced, as the kernel reports.
func stoppedThreads(t *testing.T, pid int) (out []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if bytes.Contains(text, []byte("\nState:\tt")) || bytes.Contains(text, []byte("\nState:\tT")) ||
			!bytes.Contains(text, []byte("\nTracerPid:\t0\n")) {
			out = append(out, file)
		}
	}
	return out
}

// untouched waits until no thread of a process is stopped or traced, as the kernel reports.
func untouched(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(rubytest.Timeout)
	for {
		stopped := stoppedThreads(t, pid)
		if len(stopped) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still stopped or traced: %v", stopped)
		}
		time.Sleep(time.Millisecond)
	}
}

// countingProgram is a program with a counter for each of its threads. A counter grows while its thread runs. The
// threads compute, sleep, wait for each other, begin, end, and start processes. On request the program prints its
// counters.
const countingProgram = `
$signals = 0
trap("USR1") { $signals += 1 }
counts = Array.new(8, 0)
m, cv = Mutex.new, ConditionVariable.new
2.times { |i| Thread.new { loop { counts[i] += 1; Thread.pass } } }
Thread.new { loop { sleep 0.0005; counts[2] += 1 } }
Thread.new { loop { m.synchronize { cv.wait(m, 0.001) }; counts[3] += 1 } }
Thread.new { Thread.current.name = "pipe"; r, w = IO.pipe; loop { w.write("x"); r.read(1); counts[4] += 1 } }
Thread.new { loop { Thread.new { 1 }.join; counts[5] += 1 } }
require "rbconfig"
ruby = RbConfig.ruby
Thread.new { loop { system(ruby, "--disable=gems", "-e", "0") or abort("failed: #{$?.inspect}"); counts[6] += 1 } }
Thread.new { loop { IO.select(nil, nil, nil, 0.001); counts[7] += 1 } }
Thread.report_on_exception = true
Thread.abort_on_exception = true
puts "ready"; $stdout.flush
while line = $stdin.gets
  case line.chomp
  when "count" then puts counts.inspect
  when "signals" then puts $signals
  when "exit" then exit!(7)
  end
  $stdout.flush
end
`

// progress asks the program for its counters until each counter has changed. This shows that all threads have
// continued.
func progress(t *testing.T, p *rubytest.Process) {
	t.Helper()
	counts := func() (out []int) {
		p.Send(t, "count")
		p.JSON(t, &out)
		return out
	}
	first := counts()
	deadline := time.Now().Add(rubytest.Timeout)
	for {
		now, stuck := counts(), -1
		for i := range now {
			if now[i] == first[i] {
				stuck = i
			}
		}
		if stuck < 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("counter %d does not move: %v, then %v", stuck, first, now)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestKilledWhilePausing kills a process that pauses a program, again and again, at random times. After each kill, no
// thread of the program may remain stopped, and all threads must continue.
func TestKilledWhilePausing(t *testing.T) {
	times := 100
	if rubytest.Short(t) {
		times = 10
	}
	p := rubytest.One(t).Start(t, countingProgram, rubytest.Options{})
	p.Expect(t, "ready")
	caught := 0
	for range times {
		cmd, line := startHelper(t, "sample", p.PID)
		if line != "pausing" {
			t.Fatal(line)
		}
		time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond)
		if len(stoppedThreads(t, p.PID)) > 0 {
			caught++
		}
		kill(cmd)
		untouched(t, p.PID)
		progress(t, p)
	}
	t.Logf("killed %d times, some %d of them within a pause", times, caught)
	p.Send(t, "exit")
	if code := p.Wait(t); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
}

// TestPausedProgram pauses a program a thousand times a second, on the oldest and the newest Ruby. Meanwhile the
// program gets signals, and exits at the end. No signal may be lost, and the exit code must be right.
func TestPausedProgram(t *testing.T) {
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, countingProgram, rubytest.Options{})
		p.Expect(t, "ready")
		// A helper process pauses the program. The test's process is the program's parent and waits for its end. A
		// pauser in the test's process could disturb this wait.
		_, line := startHelper(t, "sample", p.PID)
		if line != "pausing" {
			t.Fatal(line)
		}
		const signals = 200
		for i := range signals {
			p.Signal(t, syscall.SIGUSR1)
			deadline := time.Now().Add(rubytest.Timeout)
			for got := -1; got != i+1; {
				p.Send(t, "signals")
				n, err := strconv.Atoi(p.Line(t))
				if err != nil {
					t.Fatal(err)
				}
				if got = n; got > i+1 || time.Now().After(deadline) {
					t.Fatalf("%d signals were sent and %d arrived", i+1, got)
				}
			}
		}
		progress(t, p)
		p.Send(t, "exit")
		if code := p.Wait(t); code != 7 {
			t.Errorf("exit code %d, want 7", code)
		}
	})
}

// TestPauses measures how long pauses take on the oldest and the newest Ruby. It also compares the number of frames of
// each thread with what Ruby reports.
func TestPauses(t *testing.T) {
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p, truth := r.StartParked(t, rubytest.Options{})
		s := open(t, p.PID, live.Options{Pause: true, StackRate: 100})
		// A pause that takes too long is cut short. On a full machine this can happen to all twenty pauses that one
		// call of Once tries. So the test calls Once until one pause is complete.
		sample := once(t, s)
		for deadline := time.Now().Add(rubytest.Timeout); sample.PauseNS <= 0; sample = once(t, s) {
			if sample.Reads.Pauses == 0 || time.Now().After(deadline) {
				t.Fatalf("paused for %d ns; %d pauses, %d cut", sample.PauseNS, sample.Reads.Pauses, sample.Reads.PausesCut)
			}
		}
		compared := 0
		for i := range sample.Threads {
			info, _ := s.Dictionary().Thread(sample.Threads[i].ID)
			want, ok := truth.Thread(info.Name)
			if !ok {
				continue
			}
			compared++
			got := frames(s.Dictionary(), sample.Threads[i].Stack)
			if len(got) != len(want.Frames) && len(want.Frames) < 2048 {
				t.Errorf("%s: %d frames, Ruby says %d", info.Name, len(got), len(want.Frames))
			}
		}
		if compared < 20 {
			t.Errorf("%d threads compared", compared)
		}
		ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
		defer cancel()
		var total, longest int64
		var reads sampler.Reads
		wanted := 50 // pauses of a program at rest, whose stacks are seldom read
		if rubytest.Short(t) {
			wanted = 15
		}
		if err := s.Run(ctx, func(sample *sampler.Sample) {
			if sample.Depth == sampler.LockTick && sample.PauseNS != 0 {
				t.Errorf("a lock tick paused for %d ns", sample.PauseNS)
			}
			total, longest = total+sample.PauseNS, max(longest, sample.PauseNS)
			if reads = sample.Reads; int(reads.Pauses) > wanted {
				cancel()
			}
		}); err != nil {
			t.Fatal(err)
		}
		untouched(t, p.PID)
		rubytest.Report(t, "%s: %d threads: %d pauses, mean %d µs, longest %d µs, %d cut", r.Name, len(sample.Threads),
			reads.Pauses, total/int64(reads.Pauses)/1000, longest/1000, reads.PausesCut)
		p.Retell(t, "truth") // the program must still answer
	})
}

// TestStatesWithPauses compares states with what the program reports, while ddtop stops the program a hundred times a
// second. After a stop, threads return to their system calls. What the kernel reports about a thread at that moment
// must not become the thread's state.
func TestStatesWithPauses(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p, said := r.StartStates(t, rubytest.Options{})
		checkStates(t, open(t, p.PID, live.Options{Pause: true}), said)
	})
}

// awaitState waits until the kernel reports a certain state for the first thread of a process.
func awaitState(t *testing.T, pid int, state, why string) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\nState:\t"+state)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, and it is not in state %s: %s", why, state, text)
		}
	}
}

// threadNamed waits until a process has a thread with the given name, and returns this thread's TID.
func threadNamed(t *testing.T, pid int, name string) int {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(text)) != name {
				continue // the thread may have ended
			}
			tid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			return tid
		}
	}
	t.Fatalf("process %d has no thread %q", pid, name)
	return 0
}

// pauserOf attaches to a process and prepares for pauses of at most limit.
func pauserOf(t *testing.T, pid int, limit time.Duration) *attach.Pauser {
	t.Helper()
	proc, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	z, err := proc.NewPauser(limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}

// TestPauseOfStopped pauses a program that SIGSTOP has stopped, as a shell can do it. The pause must not let the
// program run: it must remain stopped until SIGCONT, and then continue.
func TestPauseOfStopped(t *testing.T) {
	p := rubytest.One(t).Start(t, countingProgram, rubytest.Options{})
	p.Expect(t, "ready")
	z := pauserOf(t, p.PID, rubytest.Timeout)
	p.Signal(t, syscall.SIGSTOP)
	awaitState(t, p.PID, "T", "it was stopped")
	for range 50 {
		pause, err := z.Pause(func() {})
		if err != nil || pause.Cut {
			t.Fatalf("%+v %v", pause, err)
		}
	}
	awaitState(t, p.PID, "T", "let go, it needs a CPU to stand still again")
	p.Signal(t, syscall.SIGCONT)
	progress(t, p)
}

// TestPauseIsBounded: if ddtop needs longer than the limit of a pause to read stacks, the program must still continue
// when the limit has passed.
func TestPauseIsBounded(t *testing.T) {
	p := rubytest.One(t).Start(t, countingProgram, rubytest.Options{})
	p.Expect(t, "ready")
	z := pauserOf(t, p.PID, live.PauseLimit)
	pause, err := z.Pause(func() {
		progress(t, p) // the program must answer while the reading still runs
		untouched(t, p.PID)
	})
	if err != nil || !pause.Cut {
		t.Errorf("%+v %v", pause, err)
	}
	t.Logf("%d threads stood for %d µs at a limit of %v", pause.Threads, pause.NS/1000, live.PauseLimit)
	if pause, err = z.Pause(func() {}); err != nil || pause.Threads < 8 {
		t.Errorf("the next pause: %+v %v", pause, err)
	}
}

// TestPausesLeaveTheTargetItsTime: between pauses, ddtop must wait so long that all pauses take at most a tenth of the
// target's time. This must hold for any requested rate.
func TestPausesLeaveTheTargetItsTime(t *testing.T) {
	rubytest.OftenEnough(t)
	p := rubytest.One(t).Start(t, `200.times { Thread.new { sleep } }; puts "ready"; $stdout.flush; $stdin.gets`, rubytest.Options{})
	p.Expect(t, "ready")
	s, err := live.Open(t.Context(), p.PID, live.Options{Pause: true, StackRate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const enough = 30
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	var earliest, pausedNS, beganNS int64
	n := 0
	if err := s.Run(ctx, func(sample *sampler.Sample) {
		if sample.PauseNS == 0 {
			return
		}
		if beganNS == 0 {
			beganNS = sample.TimeNS
		}
		if sample.TimeNS < earliest {
			t.Errorf("stopped again %d µs too early, after %d µs of standing still", (earliest-sample.TimeNS)/1000, pausedNS/1000)
		}
		earliest, pausedNS = sample.TimeNS+9*sample.PauseNS, sample.PauseNS
		if n++; n == enough {
			t.Logf("%d stops in %d ms, the last one of %d µs", n, (sample.TimeNS-beganNS)/1e6, pausedNS/1000)
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n < enough {
		rubytest.TooSeldom(t, "%d stops within %v", n, rubytest.Timeout)
	}
}

// TestPauseOfVfork pauses a process with a thread in vfork. The kernel cannot stop this thread until vfork returns. The
// test lets vfork return while ddtop reads. The order to stop the thread is then still pending, and must not stop the
// thread later.
func TestPauseOfVfork(t *testing.T) {
	// The child stays in vfork until it can open its program. A lease on the program's file prevents this until the
	// lease is given up (fcntl(2)).
	path := filepath.Join(t.TempDir(), "leased")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		rubytest.Skip(t, "no lease on %s (fcntl F_SETLEASE), which takes its owner and a file system that has leases: %v", path, err)
	}
	cmd, _ := startHelper(t, "start", int(file.Fd()))
	awaitState(t, cmd.Process.Pid, "D", "it is to start a process")
	z := pauserOf(t, cmd.Process.Pid, live.PauseLimit)
	over := false
	pause, err := z.Pause(func() {
		if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			t.Error(err)
		}
		awaitState(t, cmd.Process.Pid, "Z", "it can go on and end")
		over = true
	})
	if err != nil || !pause.Cut || !over {
		t.Errorf("%+v %v, it ended: %v", pause, err, over)
	}
}

// TestPauseOfTraced: if another process traces a thread of the target, ddtop cannot stop the threads, and must name
// that process. The test traces the first thread, and then another one. Before sampling, ddtop stops the target once as
// a trial. Even if the trial's time passes at once, as on a full machine, ddtop must name the tracer.
func TestPauseOfTraced(t *testing.T) {
	p := rubytest.One(t).Start(t, countingProgram, rubytest.Options{})
	p.Expect(t, "ready")
	proc, err := attach.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	for thread, tid := range map[string]int{"first": p.PID, "pipe": threadNamed(t, p.PID, "pipe")} {
		cmd, line := startHelper(t, "trace", tid)
		if line != "tracing errno 0" {
			t.Fatal(line)
		}
		_, err := live.Open(context.Background(), p.PID, live.Options{Pause: true})
		_, atOnce := proc.NewPauser(0, nil)
		for _, err := range []error{err, atOnce} {
			if !errors.Is(err, attach.ErrTraced) || !strings.Contains(err.Error(), fmt.Sprintf("process %d (", cmd.Process.Pid)) {
				t.Errorf("its %s thread is traced: %v", thread, err)
			}
		}
		kill(cmd)
		untouched(t, p.PID)
	}
	progress(t, p)
}
