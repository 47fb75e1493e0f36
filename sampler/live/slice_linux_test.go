package live

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// sliceOf returns a thread's slice in ns, as the kernel reports it. The slice is how long the scheduler lets the thread
// run at a time. It is zero before Linux 6.12.
func sliceOf(t *testing.T, tid int) uint64 {
	t.Helper()
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Runtime
}

// TestShortSlice: while ddtop samples, the kernel must report a short slice (time on a CPU at a time) for the sampling
// thread. Afterwards no thread may have a short slice.
func TestShortSlice(t *testing.T) {
	before := sliceOf(t, 0)
	if before == 0 {
		rubytest.Skip(t, "this kernel has no time slices of threads (Linux 6.12)")
	}
	p := rubytest.One(t).Start(t, "Thread.new { loop { 1 + 1 } }; puts 1; $stdout.flush; sleep", rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tid, n := 0, 0
	err = s.clocked(ctx, func(x *sampler.Sample) {
		tid = unix.Gettid()
		if got := sliceOf(t, 0); got != pace.SliceNS {
			t.Errorf("a slice of %d ns in tick %d, want %d", got, n, pace.SliceNS)
		}
		if n++; n == 10 {
			cancel()
		}
	})
	if err != nil || n < 10 { // one more sample ends the sampling
		t.Fatalf("%d ticks: %v", n, err)
	}
	endsSoon(t, tid)
}

// TestShortSliceNeedsNoPrivilege: even if ddtop may not raise its priority, its sampling thread must get a short slice.
// KernelPriority must report the short slice.
func TestShortSliceNeedsNoPrivilege(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("it needs root, to give it up")
	}
	if sliceOf(t, 0) == 0 {
		rubytest.Skip(t, "this kernel has no time slices of threads (Linux 6.12)")
	}
	type answer struct {
		slice uint64
		said  sampler.Priority
		err   error
	}
	got := make(chan answer)
	attach.OnOwnThread(func() {
		// Only this thread becomes another user, and it ends with the function. The first thread of the process must
		// not be used, because it would live on.
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			got <- answer{err: errno}
			return
		}
		pace.RaisePriority()
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			got <- answer{err: err}
			return
		}
		got <- answer{slice: a.Runtime, said: pace.KernelPriority()}
	})
	if a := <-got; a.err != nil || a.slice != pace.SliceNS || a.said != sampler.PriorityShortSlice {
		t.Errorf("without privileges: a slice of %d ns, said to be %v (%v)", a.slice, a.said, a.err)
	}
}
