package live_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// pairProgram is a program with 20,000 objects of each of two classes. After each line of input it makes more pairs,
// without a collection. A pair is one object of each class. The program stops this at SIGUSR1 or at 500,000 pairs. From
// 3.3 on, the two classes are on different pages, because their slots have different sizes.
const pairProgram = `
class Small; end
class Wide; def initialize; @a = @b = @c = @d = @e = @f = @g = @h = @i = @j = @k = @l = 1; end; end
keep = Array.new(20_000) { [Small.new, Wide.new] }
GC.disable
rest = false
trap(:USR1) { rest = true }
puts "ready"; $stdout.flush
while $stdin.gets
  GC.start
  rest = false
  n = 0
  puts "going"; $stdout.flush
  (Small.new; Wide.new; n += 1) until rest || n == 500_000
  sleep 0.001 until rest
  puts "rests"; $stdout.flush
end
`

func pairs(t *testing.T, s *live.Source) (small, wide int, count *sampler.HeapCount) {
	t.Helper()
	count, err := s.CountHeap(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range count.Classes {
		switch k.Name {
		case "Small":
			small = int(k.Objects)
		case "Wide":
			wide = int(k.Objects)
		}
	}
	return small, wide, count
}

// stopOnce stops the process and copies its memory. On a full machine the copy can fail, because a thread must get a
// CPU to stop. stopOnce then tries again.
func stopOnce(t *testing.T, s *live.Source, before func(bytes uint64, fast, slow time.Duration)) (*sampler.HeapPause, func()) {
	t.Helper()
	for try := 0; ; try++ {
		z, release, err := live.PauseHeap(context.Background(), s, 1<<30, before)
		if err == nil {
			return z, release
		}
		if try == 5 || !strings.Contains(err.Error(), "Try again") {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

// TestPauseHeap counts the objects of a program that makes pairs all the time. A pair is one object of each of two
// classes. So at any instant the two classes have the same number of objects. A copy of one instant must show equal
// numbers. They may still differ a little: the second object of the newest pair may be missing, and a collection may
// keep an object that is on the stack. From 3.3 on, a count without a stop must show different numbers, because the
// program changes the heap meanwhile.
func TestPauseHeap(t *testing.T) {
	const copies, passes, slack, kept, made = 3, 50, 4, 20_000, 500_000
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, pairProgram, rubytest.Options{})
		p.Expect(t, "ready")
		s, err := live.Open(context.Background(), p.PID, live.Options{Pause: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, _, err = live.PauseHeap(context.Background(), s, 1<<20, func(uint64, time.Duration, time.Duration) { t.Error("it would have stopped the process") })
		if err == nil || !strings.Contains(err.Error(), "--max-memory") {
			t.Errorf("a copy beyond the limit: %v", err)
		}
		going := func(look func()) {
			p.Send(t, "go")
			p.Expect(t, "going")
			look()
			p.Signal(t, syscall.SIGUSR1)
			p.Expect(t, "rests")
		}
		moving := 0
		for range copies {
			going(func() {
				var said uint64
				z, release := stopOnce(t, s, func(n uint64, fast, slow time.Duration) {
					if said = n; fast <= 0 || slow <= fast {
						t.Errorf("expected %v to %v", fast, slow)
					}
				})
				small, wide, count := pairs(t, s)
				again, _, _ := pairs(t, s)
				if diff := small - wide; diff < -slack || diff > slack || small < kept || small != again {
					t.Errorf("%d and %d objects, and then %d, %d pages skipped", small, wide, again, count.Skipped)
				}
				if small > kept+slack && small < kept+made {
					moving++
				}
				if z.Bytes < said || z.NS <= 0 || count.Pause != z || count.EndedNS-count.BeganNS > z.NS {
					t.Errorf("%+v, %d bytes expected", z, said)
				}
				release()
				if _, _, count := pairs(t, s); count.Pause != nil || count.BeganNS < z.EndedNS {
					t.Errorf("after the release the count is of %d, and the copy of %d", count.BeganNS, z.EndedNS)
				}
				t.Logf("stopped for %v: %d bytes, %d and %d objects", time.Duration(z.NS), z.Bytes, small, wide)
			})
		}
		if moving == 0 {
			t.Error("the program rested in all copies: the test cannot tell")
		}
		for pass := 0; r.AtLeast(3, 3) && moving > 0; pass++ {
			if pass == passes {
				t.Fatalf("%d racing passes are of one instant, too: the test cannot tell", passes)
			}
			going(func() {
				if small, wide, _ := pairs(t, s); small-wide < -slack || small-wide > slack {
					t.Logf("racing pass %d: %d and %d", pass, small, wide)
					moving = 0
				}
			})
		}
	})
}

// TestPauseHeapTakesAll compares the size of a copy with the kernel's figures for a process at rest. The copy must have
// all of the memory. Memory that was never written is in the copy as zeros, but takes no memory there.
func TestPauseHeapTakesAll(t *testing.T) {
	p := rubytest.One(t).Start(t, `keep = Array.new(300_000) { |i| "string #{i}" }; Array.new(50) { Thread.new { sleep } }; puts "ready"; $stdout.flush; $stdin.gets`, rubytest.Options{})
	p.Expect(t, "ready")
	s, err := live.Open(context.Background(), p.PID, live.Options{Pause: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := anonymousOf(t, p.PID)
	z, release := stopOnce(t, s, func(uint64, time.Duration, time.Duration) {})
	defer release()
	// The data segments of the program and its libraries have pages that were read but never written. The copy contains
	// these pages, but the kernel does not count them as anonymous memory.
	const unwritten = 2 << 20
	if after := anonymousOf(t, p.PID); z.Bytes < before || z.Bytes > after+unwritten || after > before+unwritten {
		t.Errorf("%d bytes were copied, and %d to %d are resident", z.Bytes, before, after)
	}
	if stopped := stoppedThreads(t, p.PID); len(stopped) > 0 {
		t.Errorf("stopped behind the copy: %v", stopped)
	}
}

// anonymousOf returns how much resident memory of a process is not backed by a file, as the kernel reports it.
func anonymousOf(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kB, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kB << 10
		}
	}
	t.Fatal("no RssAnon")
	return 0
}

// TestPauseHeapOfTraced: if strace or a debugger already traces a process, ddtop cannot trace it, too. So ddtop must
// return an error and not stop the process.
func TestPauseHeapOfTraced(t *testing.T) {
	p := rubytest.One(t).Start(t, "puts 'ready'; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Expect(t, "ready")
	s, err := live.Open(context.Background(), p.PID, live.Options{Pause: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	startHelper(t, "trace", p.PID)
	if _, _, err := live.PauseHeap(context.Background(), s, 1<<30, func(uint64, time.Duration, time.Duration) {}); !errors.Is(err, attach.ErrTraced) {
		t.Errorf("%v, want ErrTraced", err)
	}
}
