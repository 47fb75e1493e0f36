package live

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/redact"
)

// TestExactWithoutHits: exact mode must end by itself if samples show that the GVL changes its holder, but the probes
// record nothing. After the first such change, no sample may report that its changes are known.
func TestExactWithoutHits(t *testing.T) {
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		p := r.Start(t, `$stdout.sync = true
puts "ready"
$stdin.gets
3.times { Thread.new { loop { 20_000.times { }; sleep 0.01 } } }
$stdin.gets`, rubytest.Options{})
		p.Expect(t, "ready")
		s, err := Open(t.Context(), p.PID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Exact(t.Context(), ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.exact.now.Load().probes.Stop(); err != nil { // as if no thread came past a probe
			t.Fatal(err)
		}
		p.Send(t, "go")
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		var owner sampler.ThreadID
		moves := 0
		if err := s.Run(ctx, func(x *sampler.Sample) {
			if len(x.Ractors) == 1 && x.Ractors[0].OwnerStart == x.Ractors[0].OwnerEnd {
				if x.Ractors[0].OwnerStart != owner {
					moves++
				}
				owner = x.Ractors[0].OwnerStart
			}
			// A sample arrives some time after it was taken. The first samples here may be from before exact mode
			// began, so they are not checked.
			if moves > 3*movesProve && x.Changes.Known() {
				t.Errorf("changes are called known after the GVL was seen to change hands %d times: %+v", moves, x.Changes)
			}
			if s.ExactStatus().Ended != "" {
				cancel()
			}
		}); err != nil {
			t.Fatal(err)
		}
		st := s.ExactStatus()
		if st.On || !st.Wrong || !strings.Contains(st.Ended, "no thread came past a probe while sampling saw the GVL change hands") {
			t.Errorf("%+v", st)
		}
		if report, err := s.EndExact(); err != nil || !report.Wrong {
			t.Errorf("%+v, %v", report, err)
		}
		if n := rubytest.ChangedCode(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the files'", n)
		}
	})
}

// TestPanicRefusesOneProcess: if ddtop panics while it opens a process or inserts probes, it must return an error that
// names the process. It must still be able to open other processes.
func TestPanicRefusesOneProcess(t *testing.T) {
	r := rubytest.One(t)
	p := r.Start(t, "$stdout.sync = true\nputs %q(ready)\n$stdin.gets", rubytest.Options{})
	p.Expect(t, "ready")
	_, err := Open(t.Context(), p.PID, Options{Redactor: new(redact.Redactor)}) // a Redactor that has no maps
	var which *attach.TargetError
	if !errors.Is(err, attach.ErrFault) || !errors.As(err, &which) || which.PID != p.PID {
		t.Fatalf("%v", err)
	}
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := probe.Try(false); err != nil {
		return
	}
	reader := s.reader
	s.reader = nil
	err = s.Exact(t.Context(), ExactOptions{})
	s.reader = reader
	if !errors.Is(err, attach.ErrFault) || !errors.As(err, &which) || which.PID != p.PID {
		t.Errorf("%v", err)
	}
	if n := rubytest.ChangedCode(t, p.PID); n != 0 {
		t.Errorf("%d bytes of its code are not the files'", n)
	}
	if _, err := s.Once(t.Context()); err != nil {
		t.Error(err)
	}
}
