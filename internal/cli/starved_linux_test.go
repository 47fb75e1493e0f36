package cli_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/live"
)

// starvedRates are flags for sampling at very low rates, without records of the kernel. They imitate a busy machine, on
// which the smallest CPU budgets allow no higher rates.
var starvedRates = []string{"--overhead", "off", "--rate", "1", "--lock-rate", "4", "--source", "polling"}

// computing is a program with two threads. One computes, and the other runs the garbage collector now and then.
const computing = `$stdout.sync = true
Thread.new { loop { 1000.times { |i| i * i } } }.name = "computes"
Thread.new { loop { GC.start; sleep 0.05 } }.name = "collects"
puts "up"
sleep`

// slackNS is by how much the measured CPU time of one computing thread may be wrong, in ns. The errors are at the two
// ends of a measurement. At each end, the error is at most a quarter of the shortest period of these tests, plus the
// longest time between two samples.
const slackNS = int64(2 * (250*time.Millisecond + 375*time.Millisecond))

// TestStarvedOutputs: on a machine without free CPU time, ddtop samples at very low rates. stat and reports still have
// all figures that the kernel and Ruby count. These are the CPU time of the process and its threads, run delays,
// garbage collections and page faults. They cover the whole time and each part of it. Shares for which there are too
// few samples are null.
func TestStarvedOutputs(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	r := rubytest.One(t)
	ruby := r.Start(t, computing, rubytest.Options{})
	ruby.Expect(t, "up")
	pid := strconv.Itoa(ruby.PID)
	check := func(t *testing.T, text string) {
		t.Helper()
		var s struct {
			report.Stat
			GC      struct{ Count *uint64 } `json:"gc"`
			Process struct {
				CPU    *int64 `json:"cpu_ns"`
				Faults *int64 `json:"major_faults"`
			} `json:"process"`
			GVL []struct {
				Held *float64 `json:"held_share"`
			} `json:"gvl"`
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%v in %.300s", err, text)
		}
		if s.Process.CPU == nil || *s.Process.CPU == 0 || s.Process.Faults == nil || s.GC.Count == nil || *s.GC.Count == 0 {
			t.Errorf("counters: %+v, collections %v", s.Process, s.GC.Count)
		}
		var cpu int64
		for i := range s.Threads {
			th := &s.Threads[i]
			if th.CPUNS == nil || th.RunDelayNS == nil {
				t.Errorf("thread %d has no CPU time", th.ID)
				continue
			}
			cpu += *th.CPUNS
		}
		if s.Process.CPU != nil && (cpu < *s.Process.CPU-slackNS || cpu > *s.Process.CPU+slackNS) {
			t.Errorf("the threads had %v of a CPU, the process %v", time.Duration(cpu), time.Duration(*s.Process.CPU))
		}
		if low := s.Quality.Lacks.States != nil; !low || s.GVL[0].Held != nil {
			t.Errorf("%d samples are enough for shares: %v; %v", s.Samples, !low, s.GVL[0].Held)
		}
	}
	t.Run("stat", func(t *testing.T) {
		t.Parallel()
		x := run(t, append([]string{"stat", "--json", "-p", pid, "-d", "3s"}, starvedRates...)...)
		x.want(t, 0)
		check(t, x.out)
		x = run(t, append([]string{"stat", "-p", pid, "-d", "1s"}, starvedRates...)...)
		x.want(t, 0, "")
		for _, want := range []string{"held –, – threads wait on average; – waits", "shares of time are not told (–): ", "a share of fewer than 50 samples is off by"} {
			if !strings.Contains(x.out, want) {
				t.Errorf("%q is not in\n%s", want, x.out)
			}
		}
	})
	t.Run("record", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "x.ddtop")
		run(t, append([]string{"record", "-p", pid, "-d", "3s", "--format", "ddtop", "-o", file}, starvedRates...)...).want(t, 0)
		x := run(t, "report", file, "--json")
		x.want(t, 0)
		check(t, x.out)
	})
	// lines checks the lines of stat --interval. exact is the number of lines for which ddtop knew all changes of the
	// GVL in the whole second.
	lines := func(t *testing.T, source, while string) (exact int) {
		t.Helper()
		x := run(t, append([]string{"stat", "--json", "-p", pid, "-d", while, "--interval", "1s"}, append(starvedRates, "--source", source)...)...)
		x.want(t, 0)
		n := 0
		for text := range strings.Lines(x.out) {
			var l struct {
				Duration int64           `json:"duration_ns"`
				Exact    int64           `json:"exact_ns"`
				CPU      *float64        `json:"cpu_share"`
				Held     *float64        `json:"held_share"`
				NS       json.RawMessage `json:"ns"`
				GC       struct{ Count *int64 }
				Lacks    struct{ States *string }
			}
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			if l.Duration < int64(900*time.Millisecond) {
				continue // the last line covers less than a second
			}
			n++
			if l.CPU == nil || *l.CPU == 0 || l.GC.Count == nil {
				t.Errorf("line %d: %s", n, text)
			}
			whole := l.Exact == l.Duration
			if whole {
				exact++
			}
			if low := l.Held == nil && string(l.NS) == "null" && l.Lacks.States != nil; low == whole && (whole || l.Exact == 0) {
				t.Errorf("line %d: few samples are enough: %v: %s", n, !low, text)
			}
		}
		if n < 2 {
			t.Errorf("%d lines: %s", n, x.err)
		}
		return exact
	}
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		if exact := lines(t, "polling", "4s"); exact > 0 {
			t.Errorf("%d seconds are exact by polling", exact)
		}
	})
	t.Run("lines by switches", func(t *testing.T) {
		if err := live.CheckSwitches(); err != nil {
			rubytest.Skip(t, "%v", err)
		}
		t.Parallel()
		// With --source switches, ddtop only samples until its BPF programs are loaded into the kernel. On a busy
		// machine loading takes long, so each try measures for longer.
		exact := 0
		for _, while := range []string{"4s", "16s", "64s"} {
			if exact = lines(t, "switches", while); exact > 0 {
				break
			}
		}
		if exact == 0 {
			rubytest.TooSeldomNow(t, "no second of the longest run was known exactly")
		}
	})
}

// TestStarvedPush: `ddtop push` follows three processes at the low rates of a machine without free CPU time. Each
// profile still has the CPU time of its whole period.
func TestStarvedPush(t *testing.T) {
	t.Parallel()
	r := rubytest.One(t)
	var rubies []*rubytest.Process
	var pids []string
	for range 3 {
		p := r.Start(t, computing, rubytest.Options{})
		p.Expect(t, "up")
		rubies, pids = append(rubies, p), append(pids, strconv.Itoa(p.PID))
	}
	dir := filepath.Join(t.TempDir(), "profiles")
	before := make(map[int]time.Duration)
	for _, p := range rubies {
		before[p.PID] = rubytest.CPUTime(t, p.PID)
	}
	push := startPush(t, append([]string{"-p", strings.Join(pids, ","), "--to", "file://" + dir, "--period", "1s", "--spool", filepath.Join(t.TempDir(), "spool")}, starvedRates...)...)
	had := func(n int) func() bool {
		return func() bool {
			all := profilesIn(t, dir)
			return !slices.ContainsFunc(rubies, func(p *rubytest.Process) bool { return len(all[p.PID]) < n })
		}
	}
	push.await(t, "a profile of each", had(1))
	first := make(map[int]time.Duration)
	for _, p := range rubies {
		first[p.PID] = rubytest.CPUTime(t, p.PID)
	}
	push.await(t, "four profiles of each", had(4))
	last := make(map[int]time.Duration)
	for _, p := range rubies {
		last[p.PID] = rubytest.CPUTime(t, p.PID)
	}
	push.end(t)
	for pid, list := range profilesIn(t, dir) {
		cpu := slices.IndexFunc(list[0].SampleType, func(v *profile.ValueType) bool { return v.Type == "cpu-time" })
		var sum int64
		for i, one := range list {
			var had int64
			for _, x := range one.Sample {
				had += x.Value[cpu]
			}
			sum += had
			if had == 0 && one.DurationNanos >= int64(time.Second) {
				t.Errorf("profile %d of %d has no CPU time in %v", i, pid, time.Duration(one.DurationNanos))
			}
		}
		if least, most := int64(last[pid]-first[pid])-slackNS, int64(rubytest.CPUTime(t, pid)-before[pid]); sum < least || sum > most {
			t.Errorf("%d: %v of a CPU in %d profiles, it had %v to %v", pid, time.Duration(sum), len(list), time.Duration(least), time.Duration(most))
		}
	}
}
