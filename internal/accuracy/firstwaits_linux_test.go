package accuracy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// newThreads is a Ruby program. Two of its threads compute, and it makes further threads meanwhile. It logs when it
// made each new thread, and when this thread first had the GVL. It also logs the times in which a computing thread had
// the GVL without a break.
const newThreads = `
require "json"
def now; Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond); end
going, log = true, {}
computing = 2.times.map do
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
makes = Thread.new do
  n = 0
  while going
    name = "new #{n += 1}"
    made = now
    Thread.new(name, made) { |name, made| ran = now; log[name] = [made, ran]; sleep }.name = name
    sleep 0.01
  end
end
puts "ready"; $stdout.flush
$stdin.gets
going = false
makes.join
puts JSON.generate("log" => log, "turns" => computing.flat_map(&:value)); $stdout.flush
$stdin.gets
`

// newThreadsLog is what the program newThreads logs, in ns.
type newThreadsLog struct {
	Log   map[string][2]int64
	Turns [][2]int64
}

// bounds returns the shortest and the longest possible length of a new thread's first wait for the GVL, by the
// program's log. The wait takes at most the time from the making of the thread until it ran. It takes at least the time
// in which another thread had the GVL without a break, less delayNS. delayNS is the time in which the new thread had no
// CPU, and perhaps was not yet in the queue.
func (l *newThreadsLog) bounds(of [2]int64, delayNS int64) (least, most int64) {
	for _, turn := range l.Turns {
		least = max(least, min(turn[1], of[1])-max(turn[0], of[0])-delayNS)
	}
	return least, of[1] - of[0]
}

// allWaits keeps the waits of a Stream.
type allWaits struct {
	gvl.Ignore
	list []gvl.Wait
}

func (k *allWaits) Waited(w *gvl.Wait) { k.list = append(k.list, *w) }

// TestFirstWaits: ddtop reports the right length of a new thread's first wait for the GVL, or a right bound of it. The
// test tries each source of ddtop: thread switches, moves (a report when a thread gets or loses a CPU), and polling. Up
// to Ruby 3.2, only samples show when the wait begins.
func TestFirstWaits(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		for _, from := range []live.From{live.FromSwitches, live.FromMoved, live.FromPolling} {
			t.Run(string(from), func(t *testing.T) {
				if from == live.FromSwitches {
					if err := live.CheckSwitches(); err != nil {
						rubytest.Skip(t, "%v", err)
					}
				}
				firstWaitsBy(t, r, from)
			})
		}
	})
}

func firstWaitsBy(t *testing.T, r rubytest.Ruby, from live.From) {
	// least is the minimum number of first waits that the test judges. A thread that runs within foundFree (in ns)
	// after it was made did not have to wait, so the test ignores it.
	const least, mostTime, foundFree = 2, 20 * time.Second, 5_000_000
	p := r.Start(t, newThreads, rubytest.Options{})
	p.Expect(t, "ready")
	s, err := live.Open(t.Context(), p.PID, live.Options{Overhead: 0.03, From: from})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, waits := measure.New(s.Process(), s.Dictionary(), nil), &allWaits{}
	m.Stream().Attach(waits)
	ctx, cancel := context.WithTimeout(t.Context(), mostTime)
	defer cancel()
	type thread struct {
		id  sampler.ThreadID
		tid int32
	}
	threads := make(map[string]thread)
	var lastNS int64
	if err := s.Run(ctx, func(x *sampler.Sample) {
		m.Feed(x)
		lastNS = x.TimeNS
		for i := range x.Threads {
			info, _ := s.Dictionary().Thread(x.Threads[i].ID)
			threads[info.Name] = thread{x.Threads[i].ID, x.Threads[i].TID}
		}
		n := 0
		for i := range waits.list {
			w := &waits.list[i]
			info, _ := s.Dictionary().Thread(w.Thread)
			if strings.HasPrefix(info.Name, "new") && w.NS() > foundFree {
				n++
			}
		}
		if n > 2*least {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	delays := rubytest.RunDelays(t, p.PID)
	p.Send(t, "end")
	var log newThreadsLog
	p.JSON(t, &log)
	judged, bounds, widest := 0, 0, 0.0
	for name, of := range log.Log {
		th := threads[name]
		low, high := log.bounds(of, int64(delays[th.tid]))
		// By the log, a first wait ends when the thread logs that it runs. But before it logs this, the thread can lose
		// the GVL and wait a second time. ddtop must have seen both waits.
		if high < foundFree || of[1] >= lastNS {
			continue
		}
		var longest gvl.Bounded
		var seen []gvl.Wait
		for _, w := range waits.list {
			if w.Thread != th.id || w.FromNS >= of[1] || w.ToNS <= of[0] {
				continue
			}
			told := w.Told()
			if told.Bound != gvl.AtMost && told.NS > high*110/100 {
				t.Errorf("%s waited %s, by the log for %d ms at most: %+v", name, told.Prose(), high/1e6, w)
			}
			if told.NS > longest.NS {
				longest = told
			}
			seen = append(seen, w)
		}
		if longest.NS == 0 {
			continue
		}
		judged++
		if widest = max(widest, float64(longest.NS)/float64(high)); longest.Bound != gvl.Exactly {
			bounds++
		}
		if longest.Bound != gvl.AtLeast && longest.NS < low*90/100 {
			t.Errorf("%s waited %s, by the log for %d ms at least: made and ran at %d, samples until %d: %+v", name,
				longest.Prose(), low/1e6, of, lastNS, seen)
		}
	}
	rubytest.Report(t, "%d first waits, %d of them bounds, up to %.1f times what the log says at most", judged, bounds,
		widest)
	if judged < least {
		rubytest.TooSeldom(t, "%d first waits were seen, of %d threads", judged, len(log.Log))
	}
}
