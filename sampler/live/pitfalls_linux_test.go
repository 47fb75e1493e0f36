package live_test

import (
	"context"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rerun"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// sampleUntil samples a process until each says that it has seen enough.
func sampleUntil(t *testing.T, pid int, each func(*live.Source, *sampler.Sample) (enough bool)) {
	t.Helper()
	s := open(t, pid, live.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
		t.Fatal("too little was seen in a minute")
	}
}

// TestNobodyHoldsAtRest: while all threads wait, the GVL has no owner. Ruby's vm.running_thread (up to 2.7) still names the
// last one, a status "run" any that is about to wait (facts-gvl, section 13: 13 and 16).
func TestNobodyHoldsAtRest(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p, _ := r.StartStates(t, rubytest.Options{})
		var c *gvl.Classifier
		const n = 40
		seen, held, waiting := 0, 0, 0
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
			// The thread that told that all are at rest has to end; on a machine that is full that takes its time.
			if atRest = atRest || !owned && !reporter && wait == 0; !atRest {
				return false
			}
			waiting += wait
			if owned {
				held++
			}
			seen++
			return seen == n
		})
		if held > n/20 || waiting > n/20 {
			t.Errorf("in %d of %d samples somebody holds the GVL, %d waits", held, n, waiting)
		}
	})
}

// TestIDsAreNotGivenAgain: Ruby gives a thread the address, the object and (up to 3.2) the native thread of one that has ended,
// and its serial numbers are not kept; a ThreadID is one thread all the same (facts-gvl, section 13: 8 and 15). Each of these
// threads has a name of its own, and the kernel's name is the same.
func TestIDsAreNotGivenAgain(t *testing.T) {
	rerun.Never(t, "an id that names two threads is a defect")
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
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
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
