package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// pin makes all threads of a process run on the same CPU only.
func pin(t *testing.T, pid, cpu int) {
	t.Helper()
	var set unix.CPUSet
	set.Set(cpu)
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var tid int
		if _, err := fmt.Sscan(task.Name(), &tid); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}

// runDelay returns how long a thread was ready to run but had no CPU, in ns, as the kernel reports.
func runDelay(t *testing.T, pid int, tid int32) int64 {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cpu, delay, slices int64
	if _, err := fmt.Sscan(string(b), &cpu, &delay, &slices); err != nil {
		t.Fatalf("%s: %q: %v", path, b, err)
	}
	return delay
}

// TestNativeWithoutACPU: a thread works in C code without the GVL, and shares one CPU with three other programs. So in
// most of this time it has no CPU. ddtop must report the time without a CPU separately, and it must equal the kernel's
// count.
func TestNativeWithoutACPU(t *testing.T) {
	p := rubytest.One(t).Start(t, `
		Thread.new { Thread.current.name = "native"; f = File.open("/dev/urandom", "rb"); loop { f.sysread(32 << 20) } }
		puts "up"
		$stdout.flush
		sleep
	`, rubytest.Options{})
	p.Expect(t, "up")
	cpu := 0
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for !may.IsSet(cpu) {
		cpu++
	}
	pin(t, p.PID, cpu)
	for range 3 {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := busy.Process.Kill(); err != nil {
				t.Error(err)
			}
			if err := busy.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
				t.Error(err)
			}
		})
		pin(t, busy.Process.Pid, cpu)
	}
	s := open(t, p.PID, live.Options{})
	dict := s.Dictionary()
	class, of := gvl.NewClassifier(s.Process(), dict), stream.New(s.Process())
	sums := account.New(of, s.Process(), dict)
	ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
	defer cancel()
	var id sampler.ThreadID
	var tid int32
	var before, first, last int64
	// Between some readings, the thread was not always in the native state. mixed is how much the kernel's counter grew
	// between these readings.
	var mixed int64
	readAt, whole := int64(0), false
	sampledAt, gapNS := int64(0), stream.ReachOf(s.Process()).GapNS
	err := s.Run(ctx, func(x *sampler.Sample) {
		states := class.Classify(x)
		if x.TimeNS-sampledAt > gapNS {
			whole = false // what the thread did in a gap is not known
		}
		sampledAt = x.TimeNS
		for i := range x.Threads {
			th := &x.Threads[i]
			if info, _ := dict.Thread(th.ID); info.Name != "native" || th.TID == 0 {
				continue
			}
			if id == 0 {
				if th.Kernel.CPUAtNS == 0 {
					return
				}
				id, tid, before = th.ID, th.TID, runDelay(t, p.PID, th.TID)
				first, last, readAt = th.Kernel.RunDelayNS, th.Kernel.RunDelayNS, th.Kernel.CPUAtNS
				whole = states[i].State == gvl.Native
				continue
			}
			native := states[i].State == gvl.Native
			if th.Kernel.CPUAtNS == readAt {
				whole = whole && native
				continue
			}
			if !whole || !native {
				mixed += th.Kernel.RunDelayNS - last
			}
			last, readAt, whole = th.Kernel.RunDelayNS, th.Kernel.CPUAtNS, native
		}
		if id == 0 {
			return
		}
		of.Feed(x, states)
		if last-first > int64(time.Second) {
			cancel()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	after := runDelay(t, p.PID, tid)
	for _, th := range sums.Stat().Threads {
		if th.ID != id {
			continue
		}
		t.Logf("native %v, of it without a CPU %v; the kernel counts %v in all", time.Duration(th.NS.Native), time.Duration(th.NoCPU.Native), time.Duration(last-first))
		// The kernel counts a wait for the CPU only when the wait ends, and then counts all of it. If the wait began
		// before the first reading, the counter grows by more than the native time. ddtop limits its result to the
		// native time.
		if th.RunDelayNS == nil || *th.RunDelayNS != last-first || th.NoCPU.Native != min(last-first-mixed, th.NS.Native) {
			t.Errorf("without a CPU %d, native %d; the samples say %d, of which %d at changes of state", last-first, th.NoCPU.Native, last-first, mixed)
		}
		if th.NoCPU.Native <= 0 || th.NoCPU.Native > th.NS.Native || last > after || first > before {
			t.Errorf("without a CPU %d of %d ns; the kernel counted %d before and %d after, the samples %d to %d", th.NoCPU.Native, th.NS.Native, before, after, first, last)
		}
		return
	}
	t.Fatal("the thread is not in the account")
}
