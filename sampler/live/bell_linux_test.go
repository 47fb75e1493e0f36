package live

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// samplingThread returns the TID of the only thread of this process that samples. It recognizes the thread by its timer
// slack, which is smaller than usual.
func samplingThread(t *testing.T) (tid int) {
	t.Helper()
	for _, line := range changedThreads(t) {
		if _, err := fmt.Sscanf(line, "thread %d:", &tid); err != nil {
			t.Fatal(err)
		}
	}
	if tid == 0 {
		t.Fatal("no thread samples")
	}
	return tid
}

// TestIdleProcessRings: if a thread of an idle process gets a CPU, the kernel must wake ddtop's clock within 20 ms in
// most cases. The clock's own ticks are at least 125 ms apart. So without the kernel, the clock would notice only one
// case in six within 20 ms. While no thread gets a CPU, the clock must wake up only once a second.
func TestIdleProcessRings(t *testing.T) {
	if err := CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	const tries, enough, soonNS, idleForNS = 7, 4, 20_000_000, 200_000_000
	p := rubytest.One(t).Start(t, `puts 1; $stdout.flush; while $stdin.gets; end`, rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{From: FromSwitches})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var slow atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(x *sampler.Sample) {
			if x.Slow && x.Changes.Known() {
				slow.Store(true)
			}
		})
	}()
	defer func() { stop(); <-done }()
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(rubytest.Timeout); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within %v", what, rubytest.Timeout)
			}
		}
	}
	until("idle", slow.Load)
	moved := &s.switches.now.Load().moves.newest
	soon := 0
	for range tries {
		before := moved.Load()
		until("idle again", func() bool { return pace.Monotonic()-before > idleForNS })
		p.Send(t, "x")
		until("a move", func() bool { return moved.Load() > before })
		late := pace.Monotonic() - moved.Load()
		t.Logf("%v late", time.Duration(late))
		if late < soonNS {
			soon++
		}
	}
	if soon < enough {
		t.Errorf("%d of %d moves were known within %v", soon, tries, time.Duration(soonNS))
	}
	// If the clock did not rest, it would tick every 125 to 250 ms although the process is idle. Two seconds are enough
	// to see this.
	const restsForNS, mostWakes = 2_000_000_000, 4
	woken := func() int64 {
		t.Helper()
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", samplingThread(t)))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const calmAfterNS = pace.CalmNS + 1_000_000_000 // after this time, no reading of stacks is due
	for range tries {
		until("idle", func() bool { return pace.Monotonic()-moved.Load() > calmAfterNS })
		before, from := woken(), pace.Monotonic()
		until("rest", func() bool { return pace.Monotonic()-from > restsForNS })
		switch n := woken() - before; {
		case moved.Load() > from: // a thread of the process has had a CPU meanwhile
		case n > mostWakes:
			t.Fatalf("while no thread moved, the clock woke up %d times in %v", n, time.Duration(restsForNS))
		default:
			t.Logf("while no thread moved, the clock woke up %d times in %v", n, time.Duration(restsForNS))
			// While no thread of a process gets a CPU, Family returns the role that it read before. After a thread has
			// got a CPU, it reads the process's role again.
			asked := func() int64 {
				t.Helper()
				if _, err := s.Family(); err != nil {
					t.Error(err)
				}
				return s.familyNS
			}
			one, two := asked(), asked()
			p.Send(t, "x")
			until("a move", func() bool { return moved.Load() > two })
			if three := asked(); moved.Load() < two && one != two || three == two {
				t.Errorf("the role was asked for at %d, at %d, and after a move at %d", one, two, three)
			}
			return
		}
	}
	t.Error("threads of the idle process never rested")
}
