package live

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// policyOf is the kernel's word on a thread's scheduling.
func policyOf(t *testing.T, tid int) (policy, priority uint32) {
	t.Helper()
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Policy, a.Priority
}

func openRealTime(t *testing.T) *Source {
	t.Helper()
	if err := checkRealTime(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, "Thread.new { loop { 1 + 1 } }; puts 1; $stdout.flush; sleep", rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{RealTime: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// realTimeWait is how long the tests wait for what takes half a second.
const realTimeWait = 30 * time.Second

// TestRealTime: the sampling thread is real-time by the kernel's word from the second tick on, and afterwards it is no
// more and everything is as before.
func TestRealTime(t *testing.T) {
	s := openRealTime(t)
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &before); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), realTimeWait)
	defer cancel()
	n, tid := 0, 0
	var said sampler.Priority
	err := s.clocked(ctx, func(x *sampler.Sample) {
		tid = unix.Gettid()
		policy, priority := policyOf(t, 0)
		if n++; n == 1 && policy != unix.SCHED_NORMAL {
			t.Errorf("policy %d in the first tick", policy)
		}
		if n >= 2 && (policy&^unix.SCHED_RESET_ON_FORK != unix.SCHED_FIFO || priority != realTimePriority) {
			t.Errorf("policy %d, priority %d in tick %d", policy, priority, n)
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &limit); n >= 2 && (err != nil || limit.Cur > uint64(realTimeLimit.Microseconds())) {
			t.Errorf("RLIMIT_RTTIME is %v (%v)", limit, err)
		}
		if said = x.Self.Priority; n == 200 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if said != sampler.PriorityRealTime {
		t.Errorf("the sample says %v", said)
	}
	endsSoon(t, tid)
	// Without CAP_SYS_RESOURCE a hard limit can't be raised again.
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &after); err != nil || after.Cur < min(before.Cur, uint64(realTimeKill.Microseconds())) {
		t.Errorf("RLIMIT_RTTIME was %v and is %v (%v)", before, after, err)
	}
}

// TestRealTimeIsGivenUp: a sampling thread that computes, or does not come back from a tick, is made a normal one while it is
// still at it.
func TestRealTimeIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		why  sampler.Priority
		spin func()
	}{
		{sampler.PriorityDroppedBusy, func() {
			for from := time.Now(); time.Since(from) < 5*time.Millisecond; {
				runtime.KeepAlive(from)
			}
		}},
		{sampler.PriorityDroppedSilent, nil},
	} {
		t.Run(c.why.String(), func(t *testing.T) {
			s := openRealTime(t)
			ctx, cancel := context.WithTimeout(t.Context(), realTimeWait)
			defer cancel()
			n := 0
			var said sampler.Priority
			err := s.clocked(ctx, func(x *sampler.Sample) {
				if said = x.Self.Priority; said == c.why {
					if policy, _ := policyOf(t, 0); policy != unix.SCHED_NORMAL {
						t.Errorf("policy %d after it was given up", policy)
					}
					cancel()
					return
				}
				if n++; c.spin != nil {
					c.spin()
					return
				}
				for n == 10 && s.guard.priority() == sampler.PriorityRealTime && ctx.Err() == nil {
					time.Sleep(time.Millisecond) // within one tick
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if said != c.why {
				t.Errorf("after %d ticks it says %v", n, said)
			}
		})
	}
}

// TestRealTimeRefused: without the privilege Open says what to do, and real-time is not tried.
func TestRealTimeRefused(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("it needs root, to give it up")
	}
	failed := make(chan error)
	go func() {
		// This thread alone becomes another user, and ends with the goroutine.
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			failed <- errno
			return
		}
		failed <- setRealTime(unix.Gettid())
	}()
	err := <-failed
	if !errors.Is(err, ErrRealTime) || !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_SYS_NICE") {
		t.Errorf("without privileges: %v", err)
	}
}
