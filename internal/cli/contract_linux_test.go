package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// ddtop promises to users that these keys of the JSON do not change. A key that ends in a dot is an object or a list of
// objects. The keys after it are in this object.
var (
	dumpKeys = []string{
		"pid", "ruby.version", "ruby.description", "ruby.jit", "time",
		"ractors.id", "ractors.gvl.owner", "ractors.gvl.handover", "ractors.gvl.waiting", "ractors.gvl.waiting_count",
		"threads.id", "threads.tid", "threads.name", "threads.main", "threads.ractor", "threads.status", "threads.state",
		"threads.detail", "threads.frames.label", "threads.frames.name", "threads.frames.path",
		"threads.frames.absolute_path", "threads.frames.line", "threads.frames.c", "threads.frames.uncertain",
		"threads.fibers", "threads.truncated", "threads.omitted",
		"reads.torn", "reads.partial", "reads.failed", "reads.retried",
	}
	statKeys = []string{
		"pid", "start_monotonic_ns", "end_monotonic_ns", "duration_ns",
		"rate.stack.asked", "rate.stack.achieved", "rate.lock.asked", "rate.lock.achieved",
		"samples", "torn", "partial", "failed", "gvl.ractor", "gvl.held_share", "gvl.waiting_mean",
		"threads.id", "threads.tid", "threads.name",
		"threads.ns.running", "threads.ns.stalled", "threads.ns.gc", "threads.ns.waiting", "threads.ns.native",
		"threads.ns.io", "threads.ns.lock", "threads.ns.parked", "threads.ns.sleeping", "threads.ns.unknown",
		"threads.cpu_ns", "threads.waits.count", "threads.waits.p50_ns", "threads.waits.p99_ns", "threads.waits.max_ns",
		"threads.waits.resolution_ns", "gc.count", "gc.minor", "gc.major", "gc.ns", "self.cpu_ns", "self.max_rss_bytes",
	}
	psKeys = []string{"pid", "version", "threads", "user", "readable", "why_not", "answered", "name", "worker", "cpu",
		"rss_bytes", "title"}
)

// checkKeys decodes JSON and checks that it has all keys. If a key's path leads to several objects, each must have it.
func checkKeys(t *testing.T, text string, keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	if d.More() {
		t.Errorf("there is more behind the JSON document")
	}
	for _, k := range keys {
		if n := hasKey(t, k, v, strings.Split(k, ".")); n == 0 {
			t.Errorf("%s: nothing on the way to it, so it could not be checked", k)
		}
	}
}

// hasKey checks that all objects at a path in JSON have the key. It returns the number of these objects, or zero if a
// list on the path is empty.
func hasKey(t *testing.T, key string, v any, path []string) int {
	t.Helper()
	if len(path) == 0 {
		return 1
	}
	switch v := v.(type) {
	case []any:
		n := 0
		for _, e := range v {
			n += hasKey(t, key, e, path)
		}
		return n
	case map[string]any:
		next, ok := v[path[0]]
		if !ok {
			t.Errorf("%s is missing", key)
			return 1
		}
		return hasKey(t, key, next, path[1:])
	}
	t.Errorf("%s: there is %v in its place", key, v)
	return 1
}

// checkStat checks that stat's JSON has the promised keys, and that its numbers agree with each other.
func checkStat(t *testing.T, pid int, text string) {
	t.Helper()
	checkKeys(t, text, statKeys)
	var s struct {
		PID      int
		Start    int64 `json:"start_monotonic_ns"`
		End      int64 `json:"end_monotonic_ns"`
		Duration int64 `json:"duration_ns"`
		Samples  int
		GVL      []struct {
			Held float64 `json:"held_share"`
		}
		Threads []struct {
			Name *string
			NS   map[string]int64
		}
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.PID != pid || s.End-s.Start != s.Duration || s.Duration <= 0 || s.Samples == 0 {
		t.Errorf("pid %d (want %d), from %d to %d = %d ns, %d samples", s.PID, pid, s.Start, s.End, s.Duration, s.Samples)
	}
	held := int64(0)
	for _, th := range s.Threads {
		sum := int64(0)
		for _, ns := range th.NS {
			sum += ns
		}
		if sum > s.Duration {
			t.Errorf("thread %v was %d ns in some state, in %d ns", th.Name, sum, s.Duration)
		}
		held += th.NS["running"] + th.NS["stalled"] + th.NS["gc"]
	}
	if share := float64(held) / float64(s.Duration); len(s.GVL) != 1 || s.GVL[0].Held > 1 || abs(share-s.GVL[0].Held) > 0.02 {
		t.Errorf("the threads held the GVL %.3f of the time, it was held %+v", share, s.GVL)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// spinner is a program with a thread that computes and a thread that sleeps.
const spinner = `$stdout.sync = true

sleeper = Thread.new { sleep }
sleeper.name = "sleeper"
Thread.pass until sleeper.status == "sleep"
spin = Thread.new { x = 0; loop { 1000.times { x += 1 } } }
spin.name = "spinner"
puts "up"
STDIN.read
`

func TestCommandsOnEveryRuby(t *testing.T) {
	t.Parallel()
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel() // the test waits more than it computes, and does not depend on other tests
		p := r.Start(t, spinner, rubytest.Options{})
		p.Expect(t, "up")
		pid := strconv.Itoa(p.PID)
		t.Run("dump", func(t *testing.T) { testDump(t, r, pid) })
		t.Run("stat", func(t *testing.T) { testStat(t, p.PID) })
		t.Run("stat lines", func(t *testing.T) { testStatLines(t, p.PID) })
		t.Run("record", func(t *testing.T) { testRecord(t, pid) })
		t.Run("ps", func(t *testing.T) { testPs(t, r, p.PID) })
	})
}

func testDump(t *testing.T, r rubytest.Ruby, pid string) {
	type dumped struct {
		PID     int
		Ruby    struct{ Version string }
		Time    time.Time
		Threads []struct {
			Name  *string
			Main  bool
			State string
		}
	}
	var js result
	var d dumped
	// The test runs dump until it shows the expected states. They can differ for two reasons. The main thread may still
	// wait for the GVL before it reads standard input. Up to Ruby 3.2, a sleeping thread wakes up now and then, to end
	// the time slices of the computing thread.
	until(t, func() bool {
		js = run(t, "dump", "-p", pid, "--json")
		js.want(t, 0)
		d = dumped{}
		if err := json.Unmarshal([]byte(js.out), &d); err != nil {
			t.Fatal(err)
		}
		states := make(map[string]string)
		for _, th := range d.Threads {
			if th.Main {
				states["main"] = th.State
			} else if th.Name != nil {
				states[*th.Name] = th.State
			}
		}
		return len(d.Threads) == 3 && states["sleeper"] == "sleeping" && states["main"] == "io" &&
			(states["spinner"] == "running" || states["spinner"] == "gc")
	}, "the main thread reads, one thread sleeps and one computes")
	checkKeys(t, js.out, dumpKeys)
	if strconv.Itoa(d.PID) != pid || d.Ruby.Version != r.Version {
		t.Errorf("pid %d, Ruby %s; want %s, %s", d.PID, d.Ruby.Version, pid, r.Version)
	}
	if age := time.Since(d.Time); age < 0 || age > limit {
		t.Errorf("the dump is of %v, %v ago", d.Time, age)
	}
	text := run(t, "dump", "-p", pid)
	text.want(t, 0)
	for _, want := range []string{"GVL", "spinner", "sleeper", "script.rb:3", "script.rb:6"} {
		if !strings.Contains(text.out, want) {
			t.Errorf("%q is not in the dump:\n%s", want, text.out)
		}
	}
}

func testStat(t *testing.T, pid int) {
	js := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "0.5", "--json")
	js.want(t, 0)
	checkStat(t, pid, js.out)
	text := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "500ms")
	text.want(t, 0)
	for _, want := range []string{"GVL", "spinner", "sleeper", "ddtop itself"} {
		if !strings.Contains(text.out, want) {
			t.Errorf("%q is not in the table:\n%s", want, text.out)
		}
	}
}

// testStatLines: each line of stat --interval begins when the previous line ends, and contains the times of all
// threads.
func testStatLines(t *testing.T, pid int) {
	r := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "1s", "--interval", "200ms", "--json")
	r.want(t, 0)
	var before report.TimedLine
	n := 0
	for text := range strings.Lines(r.out) {
		var l report.TimedLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		ns := l.NS.Sum()
		if l.PID != pid || n > 0 && l.StartNS != before.EndNS || l.DurationNS <= 0 || l.DurationNS > int64(200*time.Millisecond) || ns <= 0 && l.Lacks.States == nil {
			t.Errorf("line %d: %s", n, text)
		}
		before = l
		n++
	}
	if n == 0 { // on a busy machine there may be fewer lines than asked for
		t.Errorf("no lines: %q", r.err)
	}
	text := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "500ms", "--interval", "100ms")
	text.want(t, 0)
	if !strings.HasPrefix(text.out, "time ") || strings.Count(text.out, "\n") < 2 {
		t.Errorf("lines:\n%s", text.out)
	}
}

func testRecord(t *testing.T, pid string) {
	file := filepath.Join(t.TempDir(), "profile.pb.gz")
	run(t, "record", "-p", pid, "-d", "500ms", "-o", file).want(t, 0, "wrote "+file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prof, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, s := range prof.SampleType {
		types = append(types, s.Type+"/"+s.Unit)
	}
	for _, want := range []string{"wall-time/nanoseconds", "cpu-time/nanoseconds", "gvl-wait/nanoseconds", "samples/count", "blame/nanoseconds", "cpu-samples/count", "timeline/nanoseconds"} {
		if !strings.Contains(strings.Join(types, " "), want) {
			t.Errorf("sample types %v lack %s", types, want)
		}
	}
	labels := make(map[string]bool)
	for _, s := range prof.Sample {
		for l := range s.Label {
			labels[l] = true
		}
	}
	for _, want := range []string{"thread id", "thread name", "state", "ddtop state", "ractor"} {
		if !labels[want] {
			t.Errorf("no sample has the label %q", want)
		}
	}
	for _, format := range []string{"collapsed", "speedscope"} {
		// On a busy machine the program may get no CPU during the recording of 200 ms, so the test tries again.
		until(t, func() bool {
			r := run(t, "record", "-p", pid, "-d", "200ms", "-o", "-", "--format", format, "--metric", "cpu")
			r.want(t, 0)
			return strings.Contains(r.out, "Integer#times")
		}, "the spinner's method in %s on standard output", format)
	}
}

func testPs(t *testing.T, r rubytest.Ruby, pid int) {
	js := run(t, "ps", "--json")
	js.want(t, 0)
	checkKeys(t, js.out, psKeys)
	if strings.Contains(js.out, `"args"`) {
		t.Error("ps shows arguments unasked")
	}
	row := psRow(t, run(t, "ps").out, pid)
	for _, want := range []string{r.Version, " yes ", "script.rb"} {
		if !strings.Contains(row, want) {
			t.Errorf("the row lacks %q: %s", want, row)
		}
	}
	if row = psRow(t, run(t, "ps", "--args").out, pid); !strings.Contains(row, r.Bin) {
		t.Errorf("the row with arguments lacks %q: %s", r.Bin, row)
	}
}

func TestInterruptedStatPrintsWhatItHas(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd, out, errs := prepare(t.Context(), "stat", "-p", strconv.Itoa(p.PID), "-d", "60s", "--overhead", "off", "--json")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitTicks(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		r := finish(t, cmd, out, errs)
		if r.code != 0 || !strings.Contains(r.err, "interrupted") {
			t.Errorf("%v: code %d, it said %q", sig, r.code, r.err)
		}
		checkStat(t, p.PID, r.out)
	}
}

func TestInterruptedRecordWritesWhatItHas(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	file := filepath.Join(t.TempDir(), "p.pb.gz")
	cmd, out, errs := prepare(t.Context(), "record", "-p", strconv.Itoa(p.PID), "-d", "60s", "--overhead", "off", "-o", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTicks(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if r := finish(t, cmd, out, errs); r.code != 0 {
		t.Errorf("code %d, it said %q", r.code, r.err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := profile.Parse(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
}

// rubyCommand returns the command that runs a script on a Ruby. Some Rubies are installed in a root folder of their
// own. For these, the command uses chroot.
func rubyCommand(t *testing.T, r rubytest.Ruby, script string) []string {
	t.Helper()
	if r.Root == "" {
		return []string{r.Bin, "-e", script}
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil || os.Geteuid() != 0 {
		rubytest.Skip(t, "starting by chroot needs root and the program chroot")
	}
	return []string{chroot, r.Root, r.Bin, "-e", script}
}

func until(t *testing.T, done func() bool, what string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute) // even the slowest machine needs less
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", fmt.Sprintf(what, args...))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestOwnCostOfAShortMeasurement: even a short measurement reports how much CPU time ddtop itself took, and never
// reports zero. If ddtop did not read its CPU time twice during the measurement, the result says that the cost is
// unknown.
func TestOwnCostOfAShortMeasurement(t *testing.T) {
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, length := range []string{"0.5", "0.05"} {
		r := run(t, "stat", "-p", strconv.Itoa(p.PID), "-d", length, "--json")
		r.want(t, 0)
		var s report.Stat
		if err := json.Unmarshal([]byte(r.out), &s); err != nil {
			t.Fatal(err)
		}
		switch self := s.Self; {
		case (self.CPUNS == nil) != (self.SpanNS == 0) || self.SpanNS > s.DurationNS:
			t.Errorf("-d %s: %+v in %d ns", length, self, s.DurationNS)
		case self.CPUNS != nil && (*self.CPUNS <= 0 || *self.CPUNS > self.SpanNS*int64(runtime.NumCPU())):
			t.Errorf("-d %s: %d ns of CPU time in %d ns", length, *self.CPUNS, self.SpanNS)
		}
	}
}
