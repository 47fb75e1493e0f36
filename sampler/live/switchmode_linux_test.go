package live_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// switching is a program that computes in one thread and sleeps in another. It ends after a line of input. If the line
// is "ractor", it first makes a ractor and waits for another line.
const switching = `
Thread.new { loop { 1000.times { |i| i * i }; Thread.pass } }
Thread.new { loop { sleep 0.001 } }
puts 1; $stdout.flush
if $stdin.gets == "ractor\n"
  $VERBOSE = nil
  $ractor = Ractor.new { loop { sleep 1 } }
  $stdin.gets
end
`

// switched starts a process, and opens it with options that make ddtop follow its thread switches.
func switched(t *testing.T, r rubytest.Ruby) (*rubytest.Process, *live.Source) {
	t.Helper()
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := r.Start(t, switching, rubytest.Options{})
	p.Line(t)
	s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, s
}

// TestSwitchesTakeOver: ddtop must take the first sample by polling, without waiting for the programs in the kernel.
// Once changes are known, each sample's changes must begin where the previous sample's changes end. Park must remove
// the programs from the kernel, and resume must load them again. When the process ends, following must end.
func TestSwitchesTakeOver(t *testing.T) {
	p, s := switched(t, rubytest.One(t))
	c := newChanging(t)
	var known atomic.Int64
	first := true
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(t.Context(), func(x *sampler.Sample) {
			if first && x.Changes.Known() {
				t.Error("the first sample waited for the programs in the kernel")
			}
			first = false
			c.take(x)
			known.Store(int64(c.known))
		})
	}()
	more := func() {
		t.Helper()
		from := known.Load()
		for deadline := time.Now().Add(rubytest.Timeout); known.Load() < from+20; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d samples with changes, and no more: %+v", known.Load(), s.SwitchStatus())
			}
		}
	}
	more()
	if x := s.SwitchStatus(); !x.On || !x.Wanted || x.Ended != "" || x.Records == 0 || x.Failed != 0 {
		t.Errorf("%+v", x)
	}
	resume := s.Park()
	if x := s.SwitchStatus(); x.On {
		t.Errorf("parked: %+v", x)
	}
	resume()
	more()
	p.Send(t, "end")
	if err := <-ended; !errors.Is(err, sampler.ErrEnded) {
		t.Error(err)
	}
	if x := s.SwitchStatus(); x.On || !strings.Contains(x.Ended, "exited") {
		t.Errorf("after the end: %+v", x)
	}
	if c.fresh > 2 || c.changes == 0 {
		t.Errorf("%d changes, which began anew %d times", c.changes, c.fresh)
	}
}

// TestSwitchesEndWithRactors: in a process with ractors, thread switches do not show everything that ddtop must know.
// So when a process makes ractors, ddtop must poll it again and report the reason.
func TestSwitchesEndWithRactors(t *testing.T) {
	r := rubytest.One(t)
	if !r.AtLeast(3, 0) {
		rubytest.Skip(t, "ractors came with 3.0")
	}
	p, s := switched(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	after, told := 0, false
	err := s.Run(ctx, func(x *sampler.Sample) {
		switch st := s.SwitchStatus(); {
		case st.On && x.Changes.Known() && !told:
			told = true
			p.Send(t, "ractor")
		case strings.Contains(st.Ended, "ractors"):
			if after++; after > 20 && x.Changes.Known() {
				t.Error("changes are told of a process with ractors")
			}
			if after > 40 {
				cancel()
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSwitchesOfSharedThreads: if a process's Ruby threads share native threads, ddtop must poll it and report the
// reason.
func TestSwitchesOfSharedThreads(t *testing.T) {
	r := rubytest.One(t)
	if !r.AtLeast(3, 3) {
		rubytest.Skip(t, "threads share native threads from 3.3 on")
	}
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := r.Start(t, switching, rubytest.Options{Env: []string{"RUBY_MN_THREADS=1"}})
	p.Line(t)
	for _, from := range []live.From{live.FromAuto, live.FromMoved} {
		s := open(t, p.PID, live.Options{From: from})
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		after := 0
		if err := s.Run(ctx, func(x *sampler.Sample) {
			if x.Changes.Known() {
				t.Error("changes are told")
			}
			if s.SwitchStatus().Ended != "" {
				if after++; after > 10 {
					cancel()
				}
			}
		}); err != nil {
			t.Error(err)
		}
		cancel()
		if st := s.SwitchStatus(); st.On || !strings.Contains(st.Ended, "RUBY_MN_THREADS=1") || strings.Contains(st.Ended, "exact") {
			t.Errorf("%s: %+v", from, st)
		}
	}
}
