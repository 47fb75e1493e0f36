package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestSwitches compares ddtop's number of context switches with the counters in task/TID/status, which grow when a
// thread leaves a CPU. The test reads these counters at each sample. Another goroutine of ddtop reads ddtop's number,
// and a sample does not say when this reading began.
//
// The number must lie between the counters at two times: before ddtop began to read the number, and now. To find the
// first of these times, the test uses the previous number. It takes the last sample that did not have the previous
// number yet. At that sample, ddtop had not begun to read the new number, even if samples come late. sampler/kernel
// tests the reading itself against counters of the same moment.
func TestSwitches(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	const threads = 10
	p := rubytest.One(t).Start(t, `
		10.times { Thread.new { loop { sleep 0.01 } } }
		$stdout.puts "ready"
		$stdout.flush
		sleep`, rubytest.Options{})
	p.Expect(t, "ready")
	s := open(t, p.PID, live.Options{LockRate: 100})
	ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
	defer cancel()
	// numbers of switches: got is ddtop's. before and after are the kernel's, read before and after got
	type reading struct{ before, got, after int64 }
	var first, last reading
	var was, firstNS int64
	var lastNS, begunNS int64 // lastNS is the time of the last sample. A number that is new now was read after begunNS.
	type told struct{ atNS, sum int64 }
	var kernel []told // sums of the counters in task/TID/status, with the time after each reading
	if err := s.Run(ctx, func(sample *sampler.Sample) {
		before := int64(0)
		for _, k := range slices.Backward(kernel) {
			if k.atNS <= begunNS {
				before = k.sum
				break
			}
		}
		sum := switchesOf(t, p.PID)
		kernel = append(kernel, told{monotonic(t), sum})
		got := sample.Proc.Switches
		switch {
		case got == was || before == 0 || last.got != 0 && sample.TimeNS-firstNS > 4e9:
		case first.got == 0:
			first, firstNS = reading{before, got, sum}, sample.TimeNS
		default:
			last = reading{before, got, sum}
		}
		if got != was {
			begunNS = lastNS
		}
		was, lastNS = got, sample.TimeNS
		if last.got != 0 && sample.TimeNS-firstNS > 4e9 {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if last.got == 0 {
		rubytest.TooSeldomNow(t, "nothing was counted within %v", rubytest.Timeout)
	}
	// When a thread leaves its CPU, task/TID/status counts this switch at once. ddtop's number counts it only when the
	// thread comes back.
	const slack = threads + 10
	grown, least, most := last.got-first.got, last.before-first.after-slack, last.after-first.before+slack
	if grown < least || grown > most {
		t.Errorf("%d switches, the kernel says %d to %d", grown, least, most)
	}
	if least < 2*threads {
		rubytest.TooSeldom(t, "the program switched %d times at least: nothing was compared", least)
	}
}

var switchLines = regexp.MustCompile(`(?m)^(?:non)?voluntary_ctxt_switches:\s*(\d+)$`)

// monotonic returns the present time on the clock of samples (sampler.Sample.TimeNS).
func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// switchesOf adds up the kernel's counts of context switches for a process's threads.
func switchesOf(t *testing.T, pid int) (n int64) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for _, m := range switchLines.FindAllSubmatch(b, -1) {
			k, err := strconv.ParseInt(string(m[1]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}
	return n
}
