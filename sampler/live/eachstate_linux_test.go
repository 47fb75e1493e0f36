package live

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// TestStatesCountFromBeforeTheirReading: ddtop first reads the state of each thread, and then follows changes by
// records. ddtop must give these states a time before the reading. For example, a thread may queue for the GVL during
// the reading. The record of this change is then later than the thread's state, so ddtop uses it.
func TestStatesCountFromBeforeTheirReading(t *testing.T) {
	p := rubytest.One(t).Start(t, `100.times { Thread.new { sleep } }; puts 1; $stdout.flush; gets`, rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var scheduler ruby.Scheduler
	if err := s.readThreads(t.Context(), func() (err error) {
		scheduler, err = s.reader.UnprobedScheduler()
		return err
	}); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	from, states := pace.Monotonic(), 0
	var nows []int64
	read, err := s.eachState(t.Context(), &scheduler, func(now int64, _ *ruby.SchedulerThread, _ uint64, _ int64) {
		states++
		nows = append(nows, now)
	})
	if err != nil || states < 100 {
		t.Fatalf("%d states: %v", states, err)
	}
	for _, now := range nows {
		if now < rounded(from) || now >= read {
			t.Fatalf("a state of %d, asked for at %d, and read at %d", now, from, read)
		}
	}
}
