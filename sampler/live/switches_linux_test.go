package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestSwitches compares with what the kernel says in another place: the context switches of task/TID/status, which count when a
// thread leaves a CPU. They are read at each sample. ddtop reads beside its samples, so that a reading that a sample is the first to
// have was begun some samples before: it stands between what the kernel said then and what it says now. (With what it says at the
// very moments the reading itself is compared in sampler/kernel.)
func TestSwitches(t *testing.T) {
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
	type reading struct{ before, got, after int64 } // after is read after got was
	var first, last reading
	const begun = 10 // samples before, at most
	var was, sum, firstNS int64
	var sums []int64
	if err := s.Run(ctx, func(sample *sampler.Sample) {
		sums = append(sums, sum)
		before := sums[max(0, len(sums)-begun)]
		sum = switchesOf(t, p.PID)
		got := sample.Proc.Switches
		switch {
		case got == was || before == 0 || last.got != 0 && sample.TimeNS-firstNS > 4e9:
		case first.got == 0:
			first, firstNS = reading{before, got, sum}, sample.TimeNS
		default:
			last = reading{before, got, sum}
		}
		was = got
		if last.got != 0 && sample.TimeNS-firstNS > 4e9 {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if last.got == 0 {
		t.Fatalf("nothing was counted within %v", rubytest.Timeout)
	}
	// A thread that has left its CPU and not come back counts in one place alone.
	const slack = threads + 10
	grown, least, most := last.got-first.got, last.before-first.after-slack, last.after-first.before+slack
	if grown < least || grown > most {
		t.Errorf("%d switches, the kernel says %d to %d", grown, least, most)
	}
	if least < 2*threads {
		t.Errorf("the program switched %d times at least: nothing was compared", least)
	}
}

var switchLines = regexp.MustCompile(`(?m)^(?:non)?voluntary_ctxt_switches:\s*(\d+)$`)

// switchesOf adds up what the kernel says of a process's threads.
func switchesOf(t *testing.T, pid int) (n int64) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
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
