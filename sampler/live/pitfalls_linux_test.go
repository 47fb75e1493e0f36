package live_test

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// sampleUntil samples a process and calls each with every sample, until each returns true.
func sampleUntil(t *testing.T, pid int, each func(*live.Source, *sampler.Sample) (enough bool)) {
	t.Helper()
	sourceUntil(t, open(t, pid, live.Options{}), each)
}

// sourceUntil is sampleUntil for a Source.
func sourceUntil(t *testing.T, s *live.Source, each func(*live.Source, *sampler.Sample) (enough bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	enough := false
	if err := s.Run(ctx, func(x *sampler.Sample) {
		if !enough && each(s, x) {
			enough = true
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !enough {
		rubytest.TooSeldomNow(t, "too little was seen in a minute")
	}
}

// TestNobodyHoldsAtRest: while all threads wait, ddtop must report that the GVL has no owner. Ruby's own data is
// misleading in two ways. Up to 2.7, vm.running_thread still names the last owner. A thread that is about to wait has
// the status "run".
func TestNobodyHoldsAtRest(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p, _ := r.StartStates(t, rubytest.Options{})
		var c *gvl.Classifier
		// Even in a process at rest, a thread may move in one of a hundred samples. If several samples in a row show a
		// movement, it counts once. The reason is that on a busy machine a woken thread may get no CPU for many
		// samples.
		const n, moves = 100, .01
		seen, held, waiting := 0, 0, 0
		holding, queueing := false, false
		atRest := false
		sampleUntil(t, p.PID, func(s *live.Source, x *sampler.Sample) bool {
			if c == nil {
				c = gvl.NewClassifier(s.Process(), s.Dictionary())
			}
			owned, reporter, wait := x.Ractors[0].OwnerStart != 0 || x.Ractors[0].OwnerEnd != 0, false, 0
			for _, st := range c.Classify(x) {
				owned = owned || st.State.Held()
				if st.State == gvl.Waiting {
					wait++
				}
				info, _ := s.Dictionary().Thread(st.Thread)
				reporter = reporter || info.Name == rubytest.ReporterName
			}
			// One thread has reported that all others are at rest. This thread must still end, which takes some time on
			// a full machine.
			if atRest = atRest || !owned && !reporter && wait == 0; !atRest {
				return false
			}
			if wait > 0 && !queueing {
				waiting++
			}
			if owned && !holding {
				held++
			}
			if holding, queueing = owned, wait > 0; !holding && !queueing {
				seen++
			}
			return seen == n
		})
		if most := odds.AtMost(n, moves); held > most || waiting > most {
			t.Errorf("in %d looks at a process at rest somebody takes the GVL %d times, and waits for it %d times", n, held, waiting)
		}
	})
}

// TestIDsAreNotGivenAgain: when a thread has ended, Ruby uses its address and its object again, and up to 3.2 its
// native thread too. Still, ddtop must never use the same ThreadID for two threads. Each thread here has its own name,
// so that the test can tell the threads apart.
func TestIDsAreNotGivenAgain(t *testing.T) {
	rubytest.OftenEnough(t)
	const enoughThreads = 60
	const program = `
3.times do |lane|
  Thread.new do
    (1..).each do |n|
      Thread.new { Thread.current.name = "t#{lane}-#{n}"; sleep 0.02 }.join
    end
  end
end
puts "ready"; $stdout.flush; sleep`
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := r.Start(t, program, rubytest.Options{})
		p.Expect(t, "ready")
		names := make(map[sampler.ThreadID]string)
		ids := make(map[string]sampler.ThreadID)
		sampleUntil(t, p.PID, func(s *live.Source, x *sampler.Sample) bool {
			for i := range x.Threads {
				info, ok := s.Dictionary().Thread(x.Threads[i].ID)
				if !ok || !info.HasName {
					continue
				}
				id := info.ID
				if was, ok := names[id]; ok && was != info.Name {
					t.Errorf("thread %d was %q and is %q", id, was, info.Name)
				}
				if was, ok := ids[info.Name]; ok && was != id {
					t.Errorf("%q was thread %d and is %d", info.Name, was, id)
				}
				names[id], ids[info.Name] = info.Name, id
			}
			return len(names) >= enoughThreads
		})
	})
}
