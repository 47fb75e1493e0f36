package live_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// shortTurns is a program with several threads that compute and log when they had the GVL. Another thread holds the GVL
// for only about 20 µs at a time. It logs when it gave up the GVL and when it got the GVL back.
const shortTurns = `
def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
going, turns = true, []
computing = ARGV[0].to_i.times.map do |i|
  Thread.new do
    mine, from, last = [], now, now
    while going
      at = now
      if at - last > 1_000_000
        mine << [from, last]
        from = at
      end
      last = at
    end
    mine << [from, last]
  end
end
passes, begun = [], Queue.new
short = Thread.new do
  Thread.current.name = "short"
  last = now
  begun << true
  while going
    Thread.pass
    at = now
    passes << [last, at] if at - last > 1_000_000
    last = at
  end
end
begun.pop
$stdout.puts "ready"
$stdout.flush
$stdin.gets
going = false
require "json"
puts JSON.dump("passes" => (short.join; passes), "turns" => computing.flat_map(&:value))
$stdout.flush
`

// shortTurnsLog is the log of the program shortTurns. Each pair has the beginning and the end of a call of Thread.pass
// (Passes) or of a hold of the GVL (Turns), in ns.
type shortTurnsLog struct {
	Passes, Turns [][2]int64
}

// bounds returns the shortest and the longest possible wait for each call of Thread.pass in the log between two times.
// Each list is sorted. A wait is never longer than its call, and never shorter than the longest hold of another thread
// during the call. It can be shorter than its call, because an interrupt may give the thread the GVL for a moment
// between two holds of others.
func (l *shortTurnsLog) bounds(fromNS, toNS int64) (least, most []int64) {
	for _, p := range l.Passes {
		a, b := max(p[0], fromNS), min(p[1], toNS)
		if a >= b {
			continue
		}
		one := int64(0)
		for _, turn := range l.Turns {
			one = max(one, min(turn[1], b)-max(turn[0], a))
		}
		least, most = append(least, one), append(most, b-a)
	}
	slices.Sort(least)
	slices.Sort(most)
	return least, most
}

// TestWaitsAgainstTheProgramsLog: a thread that holds the GVL for only 20 µs at a time waits for the GVL nearly all the
// time. ddtop's quantiles of these waits, and the longest wait, must agree with the program's own log.
func TestWaitsAgainstTheProgramsLog(t *testing.T) {
	for _, c := range []struct {
		rate      float64
		computing int
		full      bool // true if no CPU is free
		long      bool
	}{
		{30, 1, false, true}, {100, 3, false, false}, {1000, 1, false, true}, {1000, 3, false, true},
		{30, 1, true, true}, {100, 3, true, true}, {1000, 1, true, true},
	} {
		t.Run(fmt.Sprintf("%g Hz beside %d, full %v", c.rate, c.computing, c.full), func(t *testing.T) {
			if c.long {
				rubytest.Long(t)
			}
			rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
				if !r.AtLeast(3, 0) {
					return // the program needs method definitions without an end (Ruby 3.0)
				}
				if c.full {
					for range 2 {
						busy := exec.Command("sh", "-c", "while :; do :; done")
						if err := busy.Start(); err != nil {
							t.Fatal(err)
						}
						defer func() { busy.Process.Kill(); busy.Wait() }()
					}
				}
				p := r.Start(t, shortTurns, rubytest.Options{Args: []string{fmt.Sprint(c.computing)}})
				p.Expect(t, "ready")
				forNS := 1500 * time.Millisecond
				if c.long {
					forNS *= 2
				}
				waitsAgainstLog(t, r, p, c.rate, forNS)
			})
		})
	}
}

func waitsAgainstLog(t *testing.T, r rubytest.Ruby, p *rubytest.Process, rate float64, forNS time.Duration) {
	s, err := live.Open(t.Context(), p.PID, live.Options{StackRate: min(rate, 100), LockRate: rate})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := measure.New(s.Process(), s.Dictionary(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), forNS)
	defer cancel()
	var fromNS, toNS int64
	// readNS is when each thread's counters were last read. blind is the longest time between two such readings of a
	// thread.
	readNS, blind := make(map[sampler.ThreadID]int64), make(map[sampler.ThreadID]int64)
	if err := s.Run(ctx, func(x *sampler.Sample) {
		if fromNS == 0 {
			fromNS = x.TimeNS
		}
		toNS = x.TimeNS
		m.Feed(x)
		for i := range x.Threads {
			th := &x.Threads[i]
			if last := readNS[th.ID]; last != 0 {
				blind[th.ID] = max(blind[th.ID], th.Kernel.CPUAtNS-last)
			}
			readNS[th.ID] = th.Kernel.CPUAtNS
		}
	}); err != nil {
		t.Fatal(err)
	}
	p.Send(t, "end")
	var log shortTurnsLog
	p.JSON(t, &log)
	leasts, mosts := log.bounds(fromNS, toNS)
	st := m.Stat(0)
	i := slices.IndexFunc(st.Threads, func(th report.StatThread) bool { return th.Name != nil && *th.Name == "short" })
	if i < 0 || len(leasts) == 0 {
		t.Fatalf("no such thread among %d, %d passes", len(st.Threads), len(log.Passes))
	}
	w, id := &st.Threads[i].Waits, st.Threads[i].ID
	least, most := leasts[len(leasts)-1], mosts[len(mosts)-1]
	blindNS := max(blind[id], toNS-readNS[id])
	t.Logf("%d waits, p50 %s p90 %s p99 %s max %s; by the log the longest took %d to %d ms; not looked at for %d ms", w.Count, w.P50().Prose(),
		w.P90().Prose(), w.P99().Prose(), w.Max().Prose(), least/1e6, most/1e6, blindNS/1e6)
	if w.P50NS > w.P90NS || w.P90NS > w.P99NS || w.P99NS > w.MaxNS {
		t.Errorf("the lengths do not grow: %+v", w)
	}
	judgeQuantile(t, "p50", w.P50(), .5, w.Count, leasts, mosts)
	judgeQuantile(t, "p90", w.P90(), .9, w.Count, leasts, mosts)
	judgeQuantile(t, "p99", w.P99(), .99, w.Count, leasts, mosts)
	// The longest wait can be compared directly. A quantile also depends on how many other waits there are, but the
	// longest wait does not.
	judgeBounds(t, "max", w.Max(), least, most)
	// From 3.3 on, each hold changes the thread's counters. So ddtop can count two waits as one only if both lie
	// between the same two readings of the counters.
	if r.AtLeast(3, 3) && w.MaxNS > most*103/100+2*blindNS {
		t.Errorf("max %s, by the log %d at most: two waits are told as one", w.Max().Prose(), most)
	}
}

// judgeQuantile compares a quantile of ddtop's waits with the bounds of the waits in the log, which are sorted. ddtop
// and the log can have different numbers of waits. Possible reasons are that ddtop merged two waits, that a call had
// two waits, or that a wait lies at an end of the measurement. Such waits can be long or short. So the rank of the
// quantile is uncertain by the difference of the two numbers.
func judgeQuantile(t *testing.T, name string, f gvl.Bounded, q float64, count int64, least, most []int64) {
	t.Helper()
	n := len(least)
	off := max(n-int(count), int(count)-n) + 1
	rank := int(q * float64(n))
	lower, upper := int64(0), most[min(rank+off, n-1)]
	if rank-off >= 0 {
		lower = least[rank-off]
	}
	judgeBounds(t, name, f, lower, upper)
}

// judgeBounds fails the test if the length f contradicts its bounds, which come from the log. f must not be below 90 %
// of least, unless it is a lower bound. A lower bound must not be above 103 % of most, and an exact length not above
// 110 %. These margins allow for the errors of exact lengths (a sixteenth) and of a Histogram (3 %).
func judgeBounds(t *testing.T, name string, f gvl.Bounded, least, most int64) {
	t.Helper()
	switch {
	case f.Bound != gvl.AtLeast && f.NS < least*90/100, f.Bound == gvl.AtLeast && f.NS > most*103/100, f.Bound == gvl.Exactly && f.NS > most*110/100:
		t.Errorf("%s %s, by the log %d to %d ms", name, f.Prose(), least/1e6, most/1e6)
	}
}
