package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// endsSoon waits until the given thread of this process has ended. It then checks that no thread is left with the
// scheduling of a sampling thread: a raised priority, a short slice or exact timers.
func endsSoon(t *testing.T, tid int) {
	t.Helper()
	deadline := time.Now().Add(rubytest.Timeout)
	for ; !errors.Is(syscall.Tgkill(os.Getpid(), tid, 0), unix.ESRCH); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("thread %d, which sampled, has not ended", tid)
		}
	}
	if changed := changedThreads(t); len(changed) > 0 {
		t.Errorf("left behind: %v", changed)
	}
}

// changedThreads lists the threads of this process whose scheduling ddtop has changed: their policy, priority, time
// slice or timers.
func changedThreads(t *testing.T) (out []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			t.Fatal(err)
		}
		a, err := unix.SchedGetAttr(tid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		} else if err != nil {
			t.Fatal(err)
		}
		if a.Policy != unix.SCHED_NORMAL || a.Nice != ownNice || a.Runtime == pace.SliceNS {
			out = append(out, fmt.Sprintf("thread %d: %+v", tid, *a))
		}
		slack, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid)) // accepts the TID of any thread
		if err != nil {
			continue // the thread has ended, or the kernel is older than 4.6
		}
		if ns := strings.TrimSpace(string(slack)); ns == "1" {
			out = append(out, fmt.Sprintf("thread %d: a timer slack of %s ns", tid, ns))
		}
	}
	return out
}

// ownNice is the niceness with which this process was started.
var ownNice = func() int32 {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return 0
	}
	return a.Nice
}()

// TestSamplingThreadEnds: Run changes the scheduling of its own OS thread. After Run, this thread must end, so that no
// thread of ddtop has changed scheduling.
func TestSamplingThreadEnds(t *testing.T) {
	p := rubytest.One(t).Start(t, "puts 1; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{Pause: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		tid := 0
		err := s.clocked(ctx, func(*sampler.Sample) { tid = unix.Gettid(); cancel() })
		if cancel(); err != nil || tid == 0 {
			t.Fatalf("thread %d: %v", tid, err)
		}
		if err := syscall.Tgkill(os.Getpid(), tid, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil { // also ends the thread that stops the target
		t.Fatal(err)
	}
	for deadline := time.Now().Add(rubytest.Timeout); len(changedThreads(t)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", changedThreads(t))
		}
	}
}

// TestRunsInARow: when the context of a run ends, a goroutine stops the ticks of this run. The goroutine may come late.
// It must then not stop the ticks of the next run.
func TestRunsInARow(t *testing.T) {
	p := rubytest.One(t).Start(t, "puts 1; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// with one processor, the goroutine begins only when this goroutine waits
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ctx, cancel := context.WithCancel(t.Context())
	undo := s.stopWith(ctx)
	cancel()
	undo()
	undo = s.stopWith(t.Context())
	undo()
	undo() // as at the end of a run whose context has just ended
	runtime.Gosched()
	var sample sampler.Sample
	if err := s.reader.Read(sampler.StackTick, &sample); err != nil {
		t.Error(err)
	}
}
