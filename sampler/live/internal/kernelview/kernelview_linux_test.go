package kernelview

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// worker is a native thread of this test. It sleeps in read(2) if sleep is true, and otherwise computes.
type worker struct {
	tid   int32
	in    int // the descriptor that the thread reads
	out   int
	sleep atomic.Bool
	quit  atomic.Bool
}

func startWorker(t *testing.T) *worker {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	w := &worker{in: fds[0], out: fds[1]}
	started, ended := make(chan int32), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		started <- int32(unix.Gettid())
		var one [1]byte
		for !w.quit.Load() {
			if w.sleep.Load() {
				_, _ = unix.Read(w.in, one[:]) // the content of the byte does not matter
			}
		}
	}()
	w.tid = <-started
	t.Cleanup(func() {
		w.quit.Store(true)
		w.wake(t)
		<-ended
		_, _ = unix.Close(w.in), unix.Close(w.out)
	})
	return w
}

func (w *worker) wake(t *testing.T) {
	t.Helper()
	w.sleep.Store(false)
	if _, err := unix.Write(w.out, []byte{1}); err != nil {
		t.Fatal(err)
	}
}

// until waits until the kernel reports that the thread is in a call.
func (w *worker) until(t *testing.T, tasks *kernel.Tasks, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		call, err := tasks.Call(w.tid)
		if err != nil {
			t.Fatal(err)
		}
		if call.Name == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute later the kernel says %q, not %q", call.Name, want)
		}
	}
}

// viewOfWorker returns a View that takes its time from the parameter now, and a sample. The sample's only thread is the
// worker. It is in a blocking region, which means that it has released the GVL.
func viewOfWorker(t *testing.T, w *worker, now *int64) (*View, *sampler.Sample) {
	t.Helper()
	tasks, err := kernel.OpenTasks(os.Getpid(), sampler.NewDictionary())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tasks.Close() })
	v := New(tasks, nil, func() int64 { return *now }, func(sampler.RactorID, sampler.ThreadID) bool { return true })
	return v, &sampler.Sample{
		Ractors: []sampler.Ractor{{ID: 1}},
		Threads: []sampler.Thread{{ID: 1, Ractor: 1, TID: w.tid, Status: sampler.Stopped, Bits: sampler.BitBlockingRegion}},
	}
}

// TestAnswerAboutTheHolderEndsWithIt: a thread sleeps while it holds the GVL, then releases the GVL and computes. ddtop
// must ask the kernel again. If it kept the answer "sleeps", a long computation would look like I/O.
func TestAnswerAboutTheHolderEndsWithIt(t *testing.T) {
	w, now := startWorker(t), int64(1e9)
	v, s := viewOfWorker(t, w, &now)
	w.sleep.Store(true)
	w.until(t, v.tasks, "read")
	held := s.Clone()
	held.TimeNS, held.Ractors[0].OwnerEnd, held.Threads[0].Bits = now, 1, sampler.BitLinked
	v.Fill(held, false)
	if k := held.Threads[0].Kernel; !k.Rechecked || k.Syscall != "read" {
		t.Fatalf("the holder: %+v", k)
	}
	w.wake(t)
	w.until(t, v.tasks, sampler.SyscallRunning)
	now += 1e6
	s.TimeNS = now
	v.Fill(s, false)
	if k := s.Threads[0].Kernel; k.Rechecked || k.Syscall != sampler.SyscallRunning || k.StateAtNS != now {
		t.Errorf("without the GVL: %+v", k)
	}
}

// TestOneSleepIsNoTenthOfASecond: a thread that computes sleeps for a moment. The next tick must find that it computes
// again. Otherwise the moment would be shown as 0.1 s of sleep. If the thread continues to sleep, ddtop asks the kernel
// about it less and less often.
func TestOneSleepIsNoTenthOfASecond(t *testing.T) {
	rubytest.OftenEnough(t)
	w, now := startWorker(t), int64(1e9)
	v, s := viewOfWorker(t, w, &now)
	asked := 0
	tick := func() string {
		now += 1e6
		s.TimeNS = now
		v.Fill(s, false)
		if s.Threads[0].Kernel.StateAtNS == now {
			asked++
		}
		return s.Threads[0].Kernel.Syscall
	}
	for range computes {
		w.until(t, v.tasks, sampler.SyscallRunning)
		if got := tick(); got != sampler.SyscallRunning {
			t.Fatalf("it computes: %q", got)
		}
	}
	w.sleep.Store(true)
	w.until(t, v.tasks, "read")
	if got := tick(); got != "read" {
		t.Fatalf("it sleeps: %q", got)
	}
	w.wake(t)
	w.until(t, v.tasks, sampler.SyscallRunning)
	if got := tick(); got != sampler.SyscallRunning {
		t.Errorf("it computes again: %q", got)
	}
	w.sleep.Store(true)
	w.until(t, v.tasks, "read")
	asked = 0
	for range 100 {
		tick()
	}
	if asked < 90 {
		rubytest.TooSeldom(t, "it sleeps and computes by turns, and was asked about in %d of 100 ticks", asked)
	}
	asked = 0
	for range 1000 {
		tick()
	}
	if asked > 15 {
		t.Errorf("it sleeps for long, and was asked about in %d of 1000 ticks", asked)
	}
}
