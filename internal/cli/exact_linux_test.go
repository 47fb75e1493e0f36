package cli_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// handsOn is a program whose three threads hand the GVL to each other. Two threads compute. The third one sleeps
// between its turns.
const handsOn = `$stdout.sync = true
2.times { |i| Thread.new { Thread.current.name = "busy #{i}"; n = 0; loop { n += 1 } } }
Thread.new { Thread.current.name = "sleeper"; loop { sleep 0.001 } }
puts "ready"
$stdin.gets`

// eachExact runs a test on the oldest and the newest Ruby. It skips a Ruby that exact mode does not support. If the
// machine does not allow exact mode, it skips the whole test.
func eachExact(t *testing.T, test func(t *testing.T, r rubytest.Ruby)) {
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		test(t, r)
	})
}

func TestStatExact(t *testing.T) {
	rubytest.OftenEnough(t)
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, handsOn, rubytest.Options{})
		p.Expect(t, "ready")
		pid := strconv.Itoa(p.PID)
		got := run(t, "stat", pid, "-d", "2s", "--exact", "--exact-cost", "off", "--json")
		got.want(t, 0)
		var stat report.Stat
		if err := json.Unmarshal([]byte(got.out), &stat); err != nil {
			t.Fatal(err)
		}
		x := stat.Exact
		if x == nil || x.Wrong || x.Ended != "" {
			t.Fatalf("%+v", x)
		}
		if x.Probes.Records == 0 || x.Probes.Lost != 0 || x.Probes.HitNS <= 0 || len(stat.GVL) != 1 {
			t.Fatalf("%+v", stat)
		}
		if x.DurationNS < 1e9 || x.Turns < 2 || stat.ExactNS <= 0 || len(stat.Threads) < 3 || len(stat.LongestWaits) < 1 || stat.GVL[0].HeldShare <= 0 ||
			stat.GVL[0].Waits.Count < 1 {
			rubytest.TooSeldomNow(t, "%+v", stat)
		}
		if g := stat.GVL[0]; g.HeldShare > 1 || g.Waits.P50NS > g.Waits.P90NS || g.Waits.P99NS > g.Waits.MaxNS {
			t.Errorf("%+v", g)
		}
		for i := range stat.Threads {
			th := &stat.Threads[i]
			if sum := th.NS.Sum(); sum != stat.DurationNS {
				t.Errorf("thread %d: its times come to %d ns of %d", th.ID, sum, stat.DurationNS)
			}
		}
		if n := rubytest.ChangedCode(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the file's afterwards", n)
		}

		// stat names places in the code only if it has at least 20 stacks. On a busy machine ddtop's CPU budget allows
		// fewer stacks in a second, so the test turns the budget off.
		text := run(t, "stat", pid, "-d", "1s", "--exact", "--exact-cost", "off", "--overhead", "off")
		text.want(t, 0)
		for _, want := range []string{"exact, ", "probes: "} {
			if !strings.Contains(text.out, want) {
				t.Errorf("no %q in\n%s", want, text.out)
			}
		}
		for _, want := range []string{"of the waiting", "in the queue", "; held by ", "sampling agreed"} {
			if !strings.Contains(text.out, want) { // maybe no thread waited within the second
				rubytest.TooSeldom(t, "no %q in\n%s", want, text.out)
			}
		}
		if d := run(t, "doctor", pid); !strings.Contains(d.out, "✓ exact ") {
			t.Errorf("it can be followed exactly, and doctor says\n%s", d.out)
		}
		if stat.ExactNS <= 0 || stat.ExactNS > stat.DurationNS {
			t.Errorf("of %d ns %d are exact", stat.DurationNS, stat.ExactNS)
		}
		if stat.DurationNS-stat.ExactNS > stat.DurationNS/10 {
			rubytest.TooSeldom(t, "of %d ns %d are exact", stat.DurationNS, stat.ExactNS)
		}
		// Without exact mode, `ddtop stat` must report no exact times. Records of thread switches would also show every
		// change of the GVL. So the source must be polling, which only samples.
		plain := run(t, "stat", pid, "-d", "100ms", "--json", "--source", "polling")
		plain.want(t, 0)
		if !strings.Contains(plain.out, `"exact": null`) || !strings.Contains(plain.out, `"exact_ns": 0,`) {
			t.Errorf("without --exact:\n%s", plain.out)
		}
	})
}

// loaded is a program that hands the GVL over thousands of times a second. It also starts and ends threads and children
// all the time. It counts the children that end with a wrong exit code.
const loaded = `$stdout.sync = true
wrong, over = 0, false
work = [
  -> { File.open(File::NULL, "w") { |f| until over do 20.times { f.syswrite("x") }; sleep 0.001 end } },
  -> { n = 0; n += 1 until over },
  -> { until over do Thread.new { sleep 0 }.join; sleep 0.001 end },
  -> { until over do wrong += 1 if Process.wait2(fork { Thread.new { sleep 0 }.join; exit!(3) })[1].exitstatus != 3; sleep 0.02 end }
].map { |w| Thread.new(&w) }
puts "ready"
$stdin.gets
over = true
work.each(&:join)
puts "wrong: #{wrong}"`

// TestExactLeavesNothing: no probe stays in the code of the process, in whatever way ddtop ends. The process continues
// without errors.
func TestExactLeavesNothing(t *testing.T) {
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, loaded, rubytest.Options{})
		p.Expect(t, "ready")
		kills := 10
		if rubytest.Short(t) {
			kills = 3
		}
		if n, err := strconv.Atoi(os.Getenv("DDTOP_TEST_KILLS")); err == nil {
			kills = n
		}
		for i := range kills + 2 {
			signal := syscall.SIGKILL
			switch i {
			case 0:
				signal = syscall.SIGTERM
			case 1:
				signal = syscall.SIGQUIT // a crash: Go prints its goroutines
			}
			cmd, _, _ := prepare(t.Context(), "stat", strconv.Itoa(p.PID), "-d", "1h", "--exact", "--exact-cost", "off")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			rubytest.Probed(t, p.PID, true)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // ignore the error: the signal has ended ddtop
			rubytest.Probed(t, p.PID, false)
		}
		p.Send(t, "")
		if got, code := p.Line(t), p.Wait(t); got != "wrong: 0" || code != 0 {
			t.Errorf("it said %q and ended with %d: %s", got, code, p.Stderr())
		}
	})
}

func TestExactIsRefused(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	for _, args := range [][]string{
		{"stat", "1", "--exact-cost", "5%"}, {"stat", "1", "--exact", "--pause"}, {"dump", "1", "--exact"}, {"record", "-p", "1", "-o", "-", "--exact", "--pause"},
		{"push", "-p", "1", "--to", "file:///tmp", "--exact-cost", "5%"}, {"-p", "1", "--exact", "--pause"}, {"stat", "1", "--exact", "--exact-cost", "200%"},
	} {
		run(t, args...).want(t, 2, "--exact")
	}
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 0) {
			rubytest.Skip(t, "there are ractors from 3.0 on")
		}
		p := r.Start(t, "$VERBOSE = nil\nr = Ractor.new { Ractor.receive }\n"+handsOn, rubytest.Options{})
		p.Expect(t, "ready")
		run(t, "stat", strconv.Itoa(p.PID), "-d", "1s", "--exact").want(t, 1, "--exact: process "+strconv.Itoa(p.PID), "has 2 ractors")
		if d := run(t, "doctor", strconv.Itoa(p.PID)); !strings.Contains(d.out, "· exact       no --exact: process "+strconv.Itoa(p.PID)) {
			t.Errorf("it can't be followed exactly, and doctor says\n%s", d.out)
		}
		if n := rubytest.ChangedCode(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the file's", n)
		}
	})
}
