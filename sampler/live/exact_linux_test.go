package live_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// openExact starts a program and opens it for exact mode. It skips the test if this machine does not allow probes.
func openExact(t *testing.T, r rubytest.Ruby, program string, o rubytest.Options) (*rubytest.Process, *live.Source) {
	t.Helper()
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := r.Start(t, program, o)
	p.Expect(t, "ready")
	s, err := live.Open(t.Context(), p.PID, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return p, s
}

// eachExact runs a test on each Ruby that exact mode supports.
func eachExact(t *testing.T, test func(t *testing.T, r rubytest.Ruby)) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		test(t, r)
	})
}

// watchExactly follows a process in exact mode until the function done returns true. This function is called with each
// sample.
func watchExactly(t *testing.T, s *live.Source, done func(*sampler.Sample) bool) (*changing, live.ExactReport) {
	t.Helper()
	c := newChanging(t)
	if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	if err := s.Run(ctx, func(x *sampler.Sample) {
		c.take(x)
		if done(x) {
			cancel()
		}
	}); err != nil {
		t.Error(err)
	}
	report, err := s.EndExact()
	if err != nil {
		t.Error(err)
	}
	again, err := s.EndExact()
	if err != nil || again != report {
		t.Errorf("ended again: %+v, %v; before %+v", again, err, report)
	}
	return c, report
}

// turns returns a function for the parameter done of watchExactly. The function returns true when threads other than
// the main thread have got the GVL n times in all.
func turns(p *rubytest.Process, n int) func(*sampler.Sample) bool {
	return func(x *sampler.Sample) bool {
		for _, c := range x.Changes.List {
			if c.State == sampler.GVLHeld && c.TID != int32(p.PID) {
				n--
			}
		}
		return n <= 0
	}
}

// TestExactFollows: two threads compute and take turns. Exact mode must report that both held the GVL. At least one of
// these holds must begin after a wait.
func TestExactFollows(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, `$stdout.sync = true
2.times { Thread.new { n = 0; loop { n += 1 } } }
puts "ready"
$stdin.gets`, rubytest.Options{})
		c, report := watchExactly(t, s, turns(p, 10)) // a time slice is 100 ms of the thread's own time
		if report.Ended != "" || report.Wrong || report.Lost != 0 || report.Checks.Unclosed != 0 || report.CPUNS <= 0 {
			t.Errorf("%+v", report)
		}
		held := 0
		for tid, n := range c.turns {
			if tid != int32(p.PID) {
				held += n
			}
		}
		if len(c.since) < 3 || held < 10 || c.waits < 1 {
			t.Errorf("threads %v, turns %v, %d waits; %+v", c.since, c.turns, c.waits, report)
		}
	})
}

// sends returns a function for the parameter done of watchExactly. At the first sample, the function sends the process
// a line. It returns true when the process has answered with the text in the parameter done.
func sends(t *testing.T, p *rubytest.Process, done string) func(*sampler.Sample) bool {
	sent, over := false, make(chan struct{})
	return func(*sampler.Sample) bool {
		if !sent {
			sent = true
			go func() { p.Send(t, "go"); p.Expect(t, done); close(over) }()
		}
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
}

// TestExactChurn: a program starts and ends threads all the time. Exact mode must report that each thread held the GVL,
// and must forget each thread after its end.
func TestExactChurn(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		const born = 3000
		p, s := openExact(t, r, `$stdout.sync = true
puts "ready"
$stdin.gets
Array.new(3) { |i| Thread.new { 1000.times { Thread.new { sleep 0 if i == 1 }.join } } }.each(&:join)
puts "done"
$stdin.gets`, rubytest.Options{})
		_, report := watchExactly(t, s, sends(t, p, "done"))
		if report.Ended != "" || report.Wrong || report.Lost != 0 || report.Checks.Untracked != 0 || report.Checks.Runs < born {
			t.Errorf("%+v", report)
		}
	})
}

// TestExactForks: a process forks while exact mode follows it. Exact mode must continue. The child processes have a
// copy of the process's memory, but their threads must not count as threads of the process.
func TestExactForks(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, `$stdout.sync = true
Thread.new { loop { sleep 0.001 } }
puts "ready"
$stdin.gets
5.times { Process.wait(fork { 2.times.map { Thread.new { 200.times { sleep 0 } } }.each(&:join) }) }
puts "forked"
$stdin.gets`, rubytest.Options{})
		c, report := watchExactly(t, s, sends(t, p, "forked"))
		// At most two threads may remain: the main thread and the sleeping one. Ruby's timer thread is not a Ruby
		// thread.
		if report.Wrong || len(c.since) > 2 {
			t.Errorf("threads %v; %+v", c.since, report)
		}
	})
}

// TestExactRefuses: if exact mode cannot follow a process, ddtop must refuse it and name the reason.
func TestExactRefuses(t *testing.T) {
	const plain = `$stdout.sync = true
puts "ready"
$stdin.gets`
	for name, c := range map[string]struct {
		program string
		o       rubytest.Options
		from    [2]int
		before  [2]int
		kind    error
		says    string
	}{
		"M:N threads": {plain, rubytest.Options{Env: []string{"RUBY_MN_THREADS=1"}}, [2]int{3, 3}, [2]int{9, 0}, live.ErrExact, "RUBY_MN_THREADS=1"},
		"ractors": {`$stdout.sync = true
$VERBOSE = nil
r = Ractor.new { Ractor.receive }
puts "ready"
$stdin.gets`, rubytest.Options{}, [2]int{3, 0}, [2]int{9, 0}, ruby.ErrNoScheduler, "2 ractors"},
		"an older Ruby": {plain, rubytest.Options{}, [2]int{2, 5}, [2]int{2, 6}, ruby.ErrNoScheduler, "is known from 2.6 on"},
	} {
		t.Run(name, func(t *testing.T) {
			rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
				if !r.AtLeast(c.from[0], c.from[1]) || r.AtLeast(c.before[0], c.before[1]) {
					rubytest.Skip(t, "not of this Ruby")
				}
				_, s := openExact(t, r, c.program, c.o)
				if err := s.Exact(t.Context(), live.ExactOptions{}); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				if once, err := s.Once(t.Context()); err != nil || len(once.Threads) == 0 {
					t.Errorf("sampling afterwards: %v", err)
				}
			})
		})
	}
}
