package live

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/spend"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
)

// runningStacks is how many stacks of a running thread are compared: two seconds on a CPU.
const runningStacks = 2000

// TestRunningThreadsSpendTheirTimeInTheseFunctions: the stacks of a running thread have each C function as often as the
// kernel says that the thread spent CPU time in it. Stacks that do not fit Ruby's frames are few.
func TestRunningThreadsSpendTheirTimeInTheseFunctions(t *testing.T) {
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	each := rubytest.EachVersion
	if rubytest.Short(t) {
		each = rubytest.OldestAndNewest
	}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Run("plain", func(t *testing.T) { spendsInTheseFunctions(t, r, rubytest.Options{}) })
		if !rubytest.Short(t) && r.AtLeast(3, 1) && r.HasJIT(t, "yjit") {
			t.Run("yjit", func(t *testing.T) { spendsInTheseFunctions(t, r, rubytest.Options{RubyArgs: []string{"--yjit"}}) })
		}
	})
}

func spendsInTheseFunctions(t *testing.T, r rubytest.Ruby, o rubytest.Options) {
	t.Helper()
	p := spend.Start(t, r, o)
	s, err := Open(t.Context(), p.PID, Options{Running: true, RunningRate: 999})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	var seen [spend.NumFunctions]int
	var ns [spend.NumFunctions]int64
	misplaced := 0 // stacks that say wrongly whether the thread had the GVL
	going, stoppedNS := false, int64(0)
	var watch *sampler.NativeWatch
	var frames []sampler.FrameID
	err = s.Run(ctx, func(x *sampler.Sample) {
		watch = x.Native
		switch _, failed := watch.Running(); {
		case failed != "":
			cancel()
		case !going && s.Running.On():
			going = true
			spend.Go(t, p)
		case stoppedNS == 0 && seen[spend.All] >= runningStacks:
			ns, stoppedNS = spend.Stop(t, p), x.TimeNS
		case stoppedNS != 0 && x.TimeNS > stoppedNS+stacknames.WithinNS+1e9:
			cancel()
		}
		for i := range x.Runs {
			run := &x.Runs[i]
			info, _ := s.Dictionary().Thread(run.Thread)
			if info.Main {
				continue
			}
			seen[spend.All]++
			frames = s.Dictionary().Frames(run.Stack, frames[:0])
			for _, id := range frames {
				f := s.Dictionary().Frame(id)
				for n, name := range spend.Names {
					if f.Label == name && (f.IsNative() || n == int(spend.Ruby)) {
						seen[n]++
						if n != int(spend.Deflate) && run.Holds != (n != int(spend.Outside)) {
							misplaced++
						}
					}
				}
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	counts, failed := watch.Running()
	if failed != "" || !going {
		t.Fatalf("it was not begun: %s", failed)
	}
	n := float64(seen[spend.All])
	t.Logf("%+v, %v of %v", counts, seen, ns)
	if n < runningStacks {
		t.Fatalf("%g stacks", n)
	}
	if few := odds.AtMost(int(counts.Read), 0.05); int(counts.Refused+counts.Short) > few {
		t.Errorf("%d stacks were refused, and %d were too short, of %d", counts.Refused, counts.Short, counts.Read)
	}
	// A thread that waits for the GVL uses the CPU for a moment.
	if few := odds.AtMost(int(n), 0.01); misplaced > few {
		t.Errorf("%d of %g stacks say wrongly whether the thread had the GVL", misplaced, n)
	}
	// A clock meets a piece of time of which the program knows the length, at a random place in it. So the samples
	// that it has of a piece differ less than as many independent ones.
	for f, name := range spend.Names {
		got, want := float64(seen[f])/n, float64(ns[f])/float64(ns[spend.All])
		if math.Abs(got-want) > odds.Within(n) {
			t.Errorf("%s: %.4f of %g stacks, and %.4f of the time", name, got, n, want)
		}
	}
}

// TestRunningBeginsAndEnds: C stacks of running threads can be switched on and off again and again. The end of the
// process is no failure. Nothing is left in the kernel.
func TestRunningBeginsAndEnds(t *testing.T) {
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	p := rubytest.One(t).Start(t, "$stdout.sync = true\nThread.new { loop { 1000.times { } } }\nputs 'ready'\n$stdin.gets", rubytest.Options{})
	p.Expect(t, "ready")
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	turns, off, offNS := 0, 0, int64(0)
	err = s.Run(ctx, func(x *sampler.Sample) {
		switch {
		case turns == 3 && s.Running.On():
			p.CloseStdin(t) // the process ends while they are taken
			turns++
		case len(x.Runs) > 0 && s.Running.On() && turns < 3:
			if err := s.Running.Start(ctx); err == nil {
				t.Error("they were begun twice")
			}
			if err := s.Running.End(); err != nil {
				t.Error(err)
			}
			turns, offNS = turns+1, x.TimeNS
		case !s.Running.On() && turns < 4:
			if len(x.Runs) > 0 && x.TimeNS > offNS+4e8 { // earlier samples were on their way
				off++
			}
			if x.TimeNS > offNS+4e8 {
				if err := s.Running.Start(ctx); err != nil {
					t.Error(err)
					cancel()
				}
			}
		}
	})
	if !errors.Is(err, sampler.ErrEnded) || turns != 4 || off > 0 || s.Running.Failed() != "" {
		t.Errorf("%v, %d turns, %d samples with stacks while it was off, failed: %s", err, turns, off, s.Running.Failed())
	}
	if err := s.Running.End(); err != nil || s.Running.On() {
		t.Error(err)
	}
}
