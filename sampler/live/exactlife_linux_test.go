package live_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestExactModeEnds: exact mode must end and name the reason if, for example, the process ends or makes a ractor. If
// the process still lives, sampling must continue, without changes of the GVL in samples.
func TestExactModeEnds(t *testing.T) {
	for name, c := range map[string]struct {
		last, says string
		goesOn     bool
	}{
		"exits":                   {"exit!", "exited", false},
		"is killed":               {"Process.kill(:KILL, $$)", "exited", false},
		"becomes another program": {`exec RbConfig.ruby, "-e", "$stdin.gets"`, "exec", false},
		"makes a ractor":          {"$VERBOSE = nil; r = Ractor.new { Ractor.receive }; $stdin.gets", "ractors", true},
		"becomes dear":            {`r, w = IO.pipe; 4.times { Thread.new { loop { w.syswrite("x"); r.sysread(1) } } }; $stdin.gets`, "of its CPU time", true},
	} {
		t.Run(name, func(t *testing.T) {
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				if name == "makes a ractor" && !r.AtLeast(3, 0) {
					rubytest.Skip(t, "there are ractors from 3.0 on")
				}
				p, s := openExact(t, r, "$stdout.sync = true\n2.times { Thread.new { loop { sleep 0.01 } } }\nputs 'ready'\n$stdin.gets\n"+c.last, rubytest.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
				defer cancel()
				cost := 1.0
				if name == "becomes dear" {
					cost = 1e-4
				}
				if err := s.Exact(ctx, live.ExactOptions{MaxCost: cost}); err != nil {
					t.Fatal(err)
				}
				if err := s.Exact(ctx, live.ExactOptions{}); err == nil {
					t.Error("switched on twice")
				}
				x, sent, after := newChanging(t), false, 0
				err := s.Run(ctx, func(y *sampler.Sample) {
					x.take(y)
					if !sent && x.known > 0 {
						sent = true
						p.Send(t, "go")
					}
					if !s.ExactStatus().On && !y.Changes.Known() {
						if after++; after == 50 {
							cancel()
						}
					}
				})
				if c.goesOn != (err == nil) || !c.goesOn && !errors.Is(err, sampler.ErrEnded) || c.goesOn && after < 50 {
					t.Errorf("sampling ended with %v, %d samples after exact mode", err, after)
				}
				report, err := s.EndExact()
				if err != nil || !strings.Contains(report.Ended, c.says) || report.Wrong {
					t.Errorf("%+v, %v", report, err)
				}
				if st := s.ExactStatus(); st.On || st.Ended != report.Ended || st.WithTarget == c.goesOn {
					t.Errorf("%+v", st)
				}
				if c.goesOn {
					// Exact mode has ended, and is requested again. It must start, or be refused with the reason.
					err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1})
					if name == "becomes dear" && err != nil || name == "makes a ractor" && err == nil {
						t.Errorf("asked for again: %v", err)
					}
				}
			})
		})
	}
}

// TestExactModePhases: a program logs when it computed without giving up the GVL, and when it slept. The changes of the
// GVL in samples must agree with this log.
func TestExactModePhases(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		const phases = 40
		p, s := openExact(t, r, `$stdout.sync = true
def now() Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) end
puts "ready"
$stdin.gets
log = []
40.times { a = now; nil while now - a < 5_000_000; b = now; sleep 0.005; log << [a, b] }
puts log.inspect
$stdin.gets`, rubytest.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		if err := s.Exact(ctx, live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		var told []sampler.Change
		c := newChanging(t)
		ended, over, known := make(chan error, 1), make(chan int64, 1), make(chan struct{})
		go func() {
			var until int64
			ended <- s.Run(ctx, func(x *sampler.Sample) {
				before := c.known
				if c.take(x); before == 0 && c.known == 1 {
					close(known)
				}
				for _, y := range x.Changes.List {
					if y.TID == int32(p.PID) {
						told = append(told, y)
					}
				}
				select {
				case until = <-over:
				default:
				}
				if until != 0 && x.TimeNS > until {
					cancel()
				}
			})
		}()
		// The program waits for a line before it begins. The test sends the line when a sample has changes of the GVL.
		// On a full machine this can take some time.
		select {
		case <-known:
		case <-ctx.Done():
			t.Fatal("no sample tells changes")
		}
		p.Send(t, "go")
		var log [phases][2]int64
		p.JSON(t, &log)
		over <- log[phases-1][1]
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if _, err := s.EndExact(); err != nil {
			t.Fatal(err)
		}
		// While the thread computes, it must hold the GVL all the time. Between two phases of computing it sleeps, so
		// it must release the GVL and get it again.
		for i, phase := range log {
			state, released := sampler.GVLGone, 0
			for _, y := range told {
				if y.AtNS <= phase[0] {
					state = y.State
				} else if y.AtNS < phase[1] {
					t.Errorf("phase %d, %d to %d: %+v", i, phase[0], phase[1], y)
				} else if (i == phases-1 || y.AtNS < log[i+1][0]) && y.State == sampler.GVLReleased {
					released++
				}
			}
			if state != sampler.GVLHeld || released == 0 {
				t.Errorf("phase %d began %v, and after it the GVL was given away %d times", i, state, released)
			}
		}
	})
}

// TestExactModeHungTaker: if the function that receives samples hangs, ddtop must still remove probes that are too
// expensive. When this function continues, it must first get the samples from before the removal, with changes of the
// GVL. Later samples must have no changes.
func TestExactModeHungTaker(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, `$stdout.sync = true
puts "ready"
$stdin.gets
r, w = IO.pipe
4.times { Thread.new { loop { w.syswrite("x"); r.sysread(1) } } }
$stdin.gets`, rubytest.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		if err := s.Exact(ctx, live.ExactOptions{MaxCost: 1e-4}); err != nil {
			t.Fatal(err)
		}
		c, hung, after := newChanging(t), false, 0
		if err := s.Run(ctx, func(x *sampler.Sample) {
			c.take(x)
			if c.known > 0 && !hung {
				hung = true
				p.Send(t, "go")
				for s.ExactStatus().On && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
			if hung && !x.Changes.Known() {
				if after++; after == 50 {
					cancel()
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		report, err := s.EndExact()
		if err != nil || !strings.Contains(report.Ended, "of its CPU time") || after < 50 {
			t.Errorf("%+v, %v; %d samples after", report, err, after)
		}
		if rubytest.ChangedCode(t, p.PID) != 0 {
			t.Error("the process's code is not what it was")
		}
	})
}

// TestExactModeClose: Close must remove the probes of a Source. A closed Source must refuse to insert new probes.
func TestExactModeClose(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, "$stdout.sync = true\nputs 'ready'\n$stdin.gets", rubytest.Options{})
		other, err := live.Open(t.Context(), p.PID, live.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if report, err := other.EndExact(); err != nil || report != (live.ExactReport{}) || other.ExactStatus() != (sampler.ExactStatus{}) {
			t.Errorf("%+v, %v, %+v before", report, err, other.ExactStatus())
		}
		// Two Sources follow the same process. If one of them ends exact mode, the other must continue.
		for _, x := range []*live.Source{s, other} {
			if err := x.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if rubytest.ChangedCode(t, p.PID) == 0 {
			t.Fatal("there is no probe in its code")
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := other.Exact(t.Context(), live.ExactOptions{}); err == nil {
			t.Error("a Source that is closed has put probes in")
		}
		if rubytest.ChangedCode(t, p.PID) == 0 || !s.ExactStatus().On {
			t.Error("closing one has ended the other's")
		}
		if _, err := s.EndExact(); err != nil || rubytest.ChangedCode(t, p.PID) != 0 {
			t.Errorf("afterwards: %v; or the process's code is not what it was", err)
		}
	})
}

// TestExactModePark: when Park returns, the process must have no probes, not even probes that were just being inserted.
// The function that Park returns must insert them again.
func TestExactModePark(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, "$stdout.sync = true\nputs 'ready'\n$stdin.gets", rubytest.Options{})
		for range 2 {
			on := make(chan error, 1)
			go func() { on <- s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}) }()
			for deadline := time.Now().Add(rubytest.Timeout); len(probesOpen(t)) == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // until the probes are being inserted
			}
			resume := s.Park()
			if open, n := probesOpen(t), rubytest.ChangedCode(t, p.PID); len(open) > 0 || n != 0 {
				t.Errorf("%v are open, %d bytes of its code are not the files' while ddtop is stopped", open, n)
			}
			resume()
			if err := <-on; err != nil {
				t.Fatal(err)
			}
			if rubytest.ChangedCode(t, p.PID) == 0 || !s.ExactStatus().On {
				t.Errorf("afterwards it is not on: %+v", s.ExactStatus())
			}
			if _, err := s.EndExact(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
