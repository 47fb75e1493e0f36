package live_test

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// waits collects the waits for the GVL that a stream reports, and the intervals in which threads ran.
type waits struct {
	gvl.Ignore
	list []gvl.Wait
	// ran has the intervals in which the threads ran.
	ran []gvl.Interval
}

func (w *waits) Interval(i *gvl.Interval) {
	if i.State == gvl.Running {
		w.ran = append(w.ran, *i)
	}
}

func (w *waits) Waited(x *gvl.Wait) { w.list = append(w.list, *x) }

// TestFrozenWhileWatched freezes a process whose threads want the GVL, and lets it continue. No wait for the GVL may
// include the time in which the process was frozen. No thread may be shown as waiting in that time.
func TestFrozenWhileWatched(t *testing.T) {
	rubytest.OftenEnough(t)
	frozenWhileWatched(t, live.FromPolling)
}

// TestFrozenWhileFollowed is like TestFrozenWhileWatched, but ddtop follows the process by the kernel's reports. These
// are reports of thread switches, or of threads that get or lose a CPU. No thread may be shown as running while the
// process is frozen.
func TestFrozenWhileFollowed(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Run("switches", func(t *testing.T) {
		if err := live.CheckSwitches(); err != nil {
			rubytest.Skip(t, "%v", err)
		}
		frozenWhileWatched(t, live.FromSwitches)
	})
	t.Run("moved", func(t *testing.T) { frozenWhileWatched(t, live.FromMoved) })
}

func frozenWhileWatched(t *testing.T, from live.From) {
	t.Helper()
	for _, v2 := range []bool{true, false} {
		p := rubytest.One(t).Start(t, "3.times { Thread.new { loop { 1000.times { |i| i * i } } } }; puts 'ready'; $stdout.flush; $stdin.gets", rubytest.Options{})
		p.Expect(t, "ready")
		f := rubytest.NewFreezer(t, p.PID, v2)
		const stretchNS = 400e6
		var c *gvl.Classifier
		var of *stream.Stream
		var got waits
		var fromNS, frozenNS, nextNS, thawNS, thawedNS int64
		stack := 0 // readings of stacks since the freeze; the first of them may have begun before the freeze
		sourceUntil(t, open(t, p.PID, live.Options{From: from}), func(s *live.Source, x *sampler.Sample) bool {
			if c == nil {
				c, of = gvl.NewClassifier(s.Process(), s.Dictionary()), stream.New(s.Process())
				of.Attach(&got)
				fromNS = x.TimeNS
			}
			states := c.Classify(x)
			of.Feed(x, states)
			if from != live.FromPolling && !x.Changes.Known() && stack == 0 {
				fromNS = x.TimeNS // the process is not followed yet
			}
			switch {
			case thawedNS != 0:
				// On a full machine, a thread may get the GVL only long after the thaw. So continue until a wait for
				// the GVL has ended after the freeze.
				waited := slices.ContainsFunc(got.list, func(w gvl.Wait) bool { return w.ToNS > frozenNS })
				return waited && x.TimeNS-thawedNS > stretchNS
			case thawNS != 0:
				if !x.Proc.Frozen {
					thawedNS = x.TimeNS
				}
			case frozenNS != 0:
				if nextNS == 0 {
					nextNS = x.TimeNS
				}
				for _, ts := range states {
					if ts.State == gvl.Waiting {
						t.Errorf("v2 %v: thread %d of a frozen process waits", v2, ts.Thread)
					}
				}
				if x.TimeNS-frozenNS > stretchNS {
					f.Thaw(t)
					thawNS = x.TimeNS
				}
			case stack > 0:
				if x.Proc.Frozen {
					frozenNS = x.TimeNS
				} else if x.Depth == sampler.StackTick && x.TimeNS > fromNS {
					if stack++; stack > 2 {
						t.Errorf("v2 %v: %d readings of the stacks do not say that it is frozen", v2, stack)
						return true
					}
				}
			case len(got.list) > 0 && x.TimeNS-fromNS > stretchNS:
				f.Freeze(t)
				stack, fromNS = 1, monotonic(t) // earlier samples may still be on their way
			}
			return false
		})
		before, after := 0, 0
		for _, w := range got.list {
			if w.ToNS > frozenNS && w.FromNS < thawNS {
				t.Errorf("v2 %v: a wait of %d ms spans the time in which it was frozen", v2, w.NS()/1e6)
			}
			if w.ToNS <= frozenNS {
				before++
			} else {
				after++
			}
		}
		for _, i := range got.ran {
			// The freezer needs a moment to stop each thread. A sample shows only that the process was frozen when the
			// sample was taken. What a thread did until the next sample is unknown, so this time is allowed.
			ns := min(i.ToNS, thawNS) - max(i.FromNS, frozenNS)
			if ns > max(stretchNS/4, nextNS-frozenNS) {
				t.Errorf("v2 %v: a thread ran for %d ms while the process was frozen", v2, ns/1e6)
			}
		}
		if before == 0 || after == 0 {
			t.Errorf("v2 %v: %d waits before it was frozen and %d after", v2, before, after)
		}
		p.Stop(t)
	}
}
