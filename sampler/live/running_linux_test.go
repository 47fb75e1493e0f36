package live

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/spend"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
)

// runningStacks is how many stacks of a running thread the test compares. To get them, the test must sample the thread
// for two seconds of its CPU time.
const runningStacks = 2000

// TestRunningThreadsSpendTheirTimeInTheseFunctions: the program itself measures how its CPU time divides among its C
// functions, with CLOCK_THREAD_CPUTIME_ID. The stacks that ddtop takes of its running thread must divide among the
// functions in the same proportion. Only few stacks may not fit Ruby's frames.
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
	// A thread also uses the CPU for a moment while it waits for the GVL. So a few stacks may say wrongly whether the
	// thread had the GVL.
	if few := odds.AtMost(int(n), 0.01); misplaced > few {
		t.Errorf("%d of %g stacks say wrongly whether the thread had the GVL", misplaced, n)
	}
	// The program measures how long it was in each function. Stacks are taken at regular times, and the program's
	// intervals begin at random times. So the number of stacks in a function varies less than with stacks at random
	// times.
	for f, name := range spend.Names {
		got, want := float64(seen[f])/n, float64(ns[f])/float64(ns[spend.All])
		if math.Abs(got-want) > odds.Within(n) {
			t.Errorf("%s: %.4f of %g stacks, and %.4f of the time", name, got, n, want)
		}
	}
}

// TestRunningBeginsAndEnds: C stacks of running threads can be switched on and off repeatedly. While they are off,
// samples must have none. If the process ends, ddtop must not report that taking stacks failed.
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
			p.CloseStdin(t) // the process ends while stacks are taken
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
			// 400 ms after the switch-off, no earlier sample can be on its way
			if len(x.Runs) > 0 && x.TimeNS > offNS+4e8 {
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

// TestOtherCodeAtTheSamePlace: a program loads two libraries in turns, each at the address that the other one had.
// While a method calls one library, ddtop must never show a function of the other library in the stack. The test takes
// 5 s on a full machine. TestSteady in package clock is a quick test of the same property.
func TestOtherCodeAtTheSamePlace(t *testing.T) {
	rubytest.Long(t)
	if err := MayRun(); err != nil {
		t.Skip(err)
	}
	p := rubytest.One(t).Start(t, `
		require "fiddle"
		$stdin.gets
		def call(name)
		  library = Fiddle.dlopen(File.expand_path(name + ".so"))
		  at = library["spin_" + name]
		  Fiddle::Function.new(at, [Fiddle::TYPE_LONG], Fiddle::TYPE_INT).call(30_000_000)
		  library.close
		  at
		end
		def first; call("first"); end
		def second; call("second"); end
		puts first == second
		$stdout.flush
		loop { first; second }
	`, rubytest.Options{})
	const code = "volatile long sum; int NAME(long n) { while (n-- > 0) sum += n; return sum; }"
	source := filepath.Join(t.TempDir(), "spin.c")
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		cmd := exec.Command(rubytest.Program(t, "gcc", "gcc libc6-dev"), "-O1", "-shared", "-fPIC", "-nostdlib",
			"-DNAME=spin_"+name, "-o", filepath.Join(p.HostDir, name+".so"), source)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := os.Chmod(filepath.Join(p.HostDir, name+".so"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.Send(t, "go on")
	p.Expect(t, "true")
	s, err := Open(t.Context(), p.PID, Options{Running: true, RunningRate: 999})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	const enough = 50
	seen := make(map[string]int)
	var counts sampler.RunningCounts
	err = s.Run(ctx, func(x *sampler.Sample) {
		counts, _ = x.Native.Running()
		for i := range x.Runs {
			var function, method string
			for _, id := range s.Dictionary().Frames(x.Runs[i].Stack, nil) {
				switch label := s.Dictionary().Frame(id).Label; label {
				case "spin_first", "spin_second":
					function = label
				case "Object#first", "Object#second":
					method = label
				}
			}
			if function != "" {
				seen[method+" "+function]++
			}
		}
		if seen["Object#first spin_first"] >= enough && seen["Object#second spin_second"] >= enough {
			cancel()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if t.Logf("%v, %+v", seen, counts); len(seen) != 2 || counts.Refused == 0 || ctx.Err() == nil {
		t.Errorf("%v, and %d were refused", seen, counts.Refused)
	}
}

// TestNotBegun: if ddtop is stopped before it has taken the first stacks, the error must say this. It must not say that
// reads of the process's memory get no answer.
func TestNotBegun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	hangs := NoAnswer(4711, nil)
	if err := notBegun(ctx, 4711, hangs); !errors.Is(err, attach.ErrNoAnswer) {
		t.Error(err)
	}
	stop()
	if err := notBegun(ctx, 4711, hangs); errors.Is(err, attach.ErrNoAnswer) || !errors.Is(err, ErrNoRunning) {
		t.Error(err)
	}
	if err := notBegun(ctx, 4711, nil); err != nil {
		t.Error(err)
	}
}
