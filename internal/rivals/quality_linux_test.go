package rivals

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	gvlmeasure "github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// qualityRounds is how often each source is measured on each load. DDTOP_BENCH_PAIRS is another number.
	qualityRounds = 5
	// qualityLength is how long: the time that the screen's figures and findings are of.
	qualityLength = sampler.QualityWindow
	// qualityThreads are those of Puma, and forkedWorkers the processes of the load that has many.
	qualityThreads, forkedWorkers = 5, 50
)

// sourceNames are the sources that ddtop may have.
var sourceNames = []string{"switches", "moved", "polling"}

// sources are those that this ddtop has and this machine allows.
func sources(b *testing.B, path string) (out []string) {
	b.Helper()
	for _, name := range sourceNames {
		if err := exec.Command(path, "stat", "--source", name, "--help").Run(); err != nil {
			continue // this ddtop does not know it
		}
		if err := live.CheckSwitches(); name == "switches" && err != nil {
			b.Logf("left out: by switches: %v", err)
			continue
		}
		out = append(out, name)
	}
	return out
}

// qualitySaid is what the JSON of `ddtop stat` says of its quality.
type qualitySaid struct {
	Start   int64 `json:"start_monotonic_ns"`
	End     int64 `json:"end_monotonic_ns"`
	Quality struct {
		Lacks map[string]*string `json:"lacks"`
	} `json:"quality"`
	Threads []struct {
		TID *int32           `json:"tid"`
		NS  map[string]int64 `json:"ns"`
	} `json:"threads"`
	Requests struct {
		Endpoints []struct {
			Kind  string `json:"kind"`
			Ended int    `json:"ended"`
		} `json:"endpoints"`
	} `json:"requests"`
}

// times are when each native thread held the GVL, waited for it, or did without, by exact mode.
type times []stretch

// stretch is a time that a native thread spent in one place.
type stretch struct {
	tid          int32
	place        place
	fromNS, toNS int64
}

// place is where a thread is.
type place int

const (
	holding place = iota
	waiting
	released
	places
)

// truth makes times of the samples of a process that is followed exactly.
type truth struct {
	gvl.Ignore
	times
	tids    map[sampler.ThreadID]int32
	measure *gvlmeasure.Measure
}

// take takes a sample.
func (k *truth) take(x *sampler.Sample) {
	for i := range x.Threads {
		k.tids[x.Threads[i].ID] = x.Threads[i].TID
	}
	k.measure.Feed(x)
}

// Interval keeps a stretch.
func (k *truth) Interval(i *gvl.Interval) {
	s := stretch{tid: k.tids[i.Thread], place: released, fromNS: i.FromNS, toNS: i.ToNS}
	switch {
	case i.State.Held():
		s.place = holding
	case i.State == gvl.Waiting:
		s.place = waiting
	}
	k.times = append(k.times, s)
}

// offPoints is how far the shares of time are from those of exact mode in the same time, in points: the mean of the threads, and the worst thread; of
// time with the GVL, waiting for it and without it the largest difference counts. ok is false if the shares are not told.
func offPoints(s *qualitySaid, truth times) (mean, worst float64, ok bool) {
	if s.Quality.Lacks["states"] != nil || s.End <= s.Start {
		return 0, 0, false
	}
	exactly := make(map[int32][places]int64)
	for _, i := range truth {
		if a, b := max(i.fromNS, s.Start), min(i.toNS, s.End); b > a {
			sums := exactly[i.tid]
			sums[i.place] += b - a
			exactly[i.tid] = sums
		}
	}
	n := 0
	for _, t := range s.Threads {
		if t.TID == nil {
			continue
		}
		x, known := exactly[*t.TID]
		if !known {
			continue // it did nothing with the GVL
		}
		off := 0.0
		held := t.NS["running"] + t.NS["stalled"] + t.NS["gc"]
		queued := t.NS["waiting"]
		listed := int64(0)
		for _, ns := range t.NS {
			listed += ns
		}
		for _, d := range [][2]int64{{held, x[holding]}, {queued, x[waiting]}, {listed - held - queued, x[released]}} {
			off = max(off, 100*math.Abs(float64(d[0]-d[1]))/float64(s.End-s.Start))
		}
		mean, worst, n = mean+off, max(worst, off), n+1
	}
	if n == 0 {
		return 0, 0, false
	}
	return mean / float64(n), worst, true
}

// qualityLoad is a load, and the process of it that is measured.
type qualityLoad struct {
	name string
	pid  int
	// exact: exact mode is beside it. log is of requests, of the process alone; "" without.
	exact bool
	log   string
	args  []string
	// begin puts it under load until the returned function is called; nil: it is by itself.
	begin func() (stop func())
}

// BenchmarkQuality measures what ddtop costs at its defaults together with what that buys, by each source: points of share off those of exact mode
// in the same seconds, and how many of the requests of the application's log are seen. Neither figure says much without the other.
func BenchmarkQuality(b *testing.B) {
	path := buildOwn(b)
	for _, l := range qualityLoads(b) {
		b.Run(l.name, func(b *testing.B) {
			for range b.N {
				for _, source := range sources(b, path) {
					measureQuality(b, path, source, l)
				}
				b.ReportMetric(0, "ns/op") // a run's length is chosen, not measured
			}
		})
	}
}

// qualityLoads starts the programs.
func qualityLoads(b *testing.B) []qualityLoad {
	b.Helper()
	wrk := rubytest.Program(b, "wrk", "wrk")
	app := servertest.StartLoggingRails(b, 1, qualityThreads)
	under := func(connections int) func() func() {
		return func() func() {
			cmd := exec.Command(wrk, "--threads", "1", "--connections", strconv.Itoa(connections), "--duration", "1h", "--script",
				filepath.Join(app.Dir, "load.lua"), app.URL)
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			return func() {
				_ = cmd.Process.Kill() // it has not ended by itself
				_ = cmd.Wait()         // killed
			}
		}
	}
	rails := qualityLoad{pid: app.Workers[0], exact: true, log: app.Log}
	full, half := rails, rails
	full.name, full.begin = "rails-full", under(10)
	half.name, half.begin = "rails-half", under(1)
	out := []qualityLoad{full, half}
	ruby := theRuby(b)
	for _, p := range []struct {
		name, script string
		exact        bool
		args         []string
	}{
		{"idle", costScript(0, 10, 1), true, nil},
		{"500-threads", costScript(2, 498, 0.02), true, nil},
		{"50-workers", forkedScript, false, []string{"--children"}},
		{"many-switches", switchesScript, false, nil}, // breakpoints would make it another load
	} {
		r := ruby.Start(b, p.script, rubytest.Options{})
		r.Expect(b, "up")
		out = append(out, qualityLoad{name: p.name, pid: r.PID, exact: p.exact, args: p.args})
	}
	return out
}

// forkedScript has many processes that wake up and compute a little.
var forkedScript = fmt.Sprintf(`
%d.times { fork { Thread.new { loop { 2000.times { }; sleep 0.05 } }; sleep } }
puts "up"
$stdout.flush
$stdin.gets
`, forkedWorkers)

// switchesScript has threads that wait for each other's bytes, some tens of thousands of thread switches a second.
const switchesScript = `
4.times do
  a, b = IO.pipe
  c, d = IO.pipe
  Thread.new { loop { d.write("x"); a.read(1) } }
  Thread.new { loop { c.read(1); b.write("x") } }
end
puts "up"
$stdout.flush
$stdin.gets
`

// qualityPairs is how often a source is measured.
func qualityPairs() int {
	if n, err := strconv.Atoi(os.Getenv("DDTOP_BENCH_PAIRS")); err == nil && n > 0 {
		return n
	}
	return qualityRounds
}

func measureQuality(b *testing.B, path, source string, l qualityLoad) {
	b.Helper()
	if l.begin != nil {
		defer l.begin()()
	}
	var cost, mean, worst, seen, lock, stack, told []float64
	for range qualityPairs() {
		truth, endTruth := exactBeside(b, l)
		var last []qualitySaid
		m := stat(path, source, append([]string{"--source", source}, l.args...)...)
		m.said = func(out []byte, file string) (sampled, error) {
			var several struct{ Processes []json.RawMessage }
			if err := json.Unmarshal(out, &several); err != nil {
				return sampled{}, err
			}
			said := saidOfSeveral
			if several.Processes == nil {
				several.Processes, said = []json.RawMessage{out}, saidByStat
			}
			last = nil
			for _, text := range several.Processes {
				var s qualitySaid
				if err := json.Unmarshal(text, &s); err != nil {
					return sampled{}, err
				}
				last = append(last, s)
			}
			return said(out, file)
		}
		share, said := m.cost(b, l.pid, qualityLength)
		known := endTruth()
		cost, lock, stack = append(cost, share), append(lock, said.lockHz), append(stack, said.stackHz)
		full := 0
		for i := range last {
			if last[i].Quality.Lacks["states"] == nil {
				full++
			}
		}
		told = append(told, 100*float64(full)/float64(len(last)))
		if known {
			if a, w, ok := offPoints(&last[0], *truth); ok {
				mean, worst = append(mean, a), append(worst, w)
			}
		}
		if l.log != "" && last[0].Quality.Lacks["requests"] == nil {
			seen = append(seen, requestsSeen(b, &last[0], l.log))
		}
	}
	b.ReportMetric(median(cost), source+"-%")
	b.ReportMetric(median(told), source+"-told-%")
	reportRates(b, source, lock, stack)
	if len(mean) > 0 {
		b.ReportMetric(median(mean), source+"-off-points")
		b.ReportMetric(slices.Max(worst), source+"-worst-points")
	}
	if len(seen) > 0 {
		b.ReportMetric(median(seen), source+"-requests-%")
	}
}

// exactBeside follows a process exactly until the returned function is called, which says whether exact mode was on all the time.
func exactBeside(b *testing.B, l qualityLoad) (*times, func() bool) {
	b.Helper()
	k := &truth{tids: make(map[sampler.ThreadID]int32)}
	if !l.exact {
		return &k.times, func() bool { return false }
	}
	s, err := live.Open(b.Context(), l.pid, live.Options{StackRate: 1, LockRate: 1})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Exact(b.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
		b.Logf("without exact mode beside it: %v", err)
		return &k.times, func() bool { s.Close(); return false }
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	k.measure = gvlmeasure.New(s.Process(), s.Dictionary(), nil)
	k.measure.Stream().Attach(k)
	go func() { done <- s.Run(ctx, k.take) }()
	time.Sleep(attachTime)
	return &k.times, func() bool {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		k.measure.Stream().Finish()
		report, err := s.EndExact()
		s.Close()
		if err != nil || report.Ended != "" || report.Lost != 0 {
			b.Logf("exact mode: %v, ended %q, %d records lost", err, report.Ended, report.Lost)
			return false
		}
		return true
	}
}

// requestsSeen is how many requests that ended in the window ddtop saw, in percent of those that the application's log has.
func requestsSeen(b *testing.B, s *qualitySaid, log string) float64 {
	b.Helper()
	logged, seen := 0, 0
	for _, r := range servertest.RequestLog(b, log) {
		if r.Kind == "R" && r.ToNS > s.Start && r.ToNS <= s.End {
			logged++
		}
	}
	for _, e := range s.Requests.Endpoints {
		if e.Kind == sampler.WorkRequest.String() {
			seen += e.Ended
		}
	}
	if logged == 0 {
		return math.NaN()
	}
	return 100 * float64(seen) / float64(logged)
}

// TestOffPoints: what is compared, and what is not.
func TestOffPoints(t *testing.T) {
	one, two := int32(1), int32(2)
	s := qualitySaid{Start: 0, End: 1000}
	s.Threads = append(s.Threads, struct {
		TID *int32           `json:"tid"`
		NS  map[string]int64 `json:"ns"`
	}{&one, map[string]int64{"running": 450, "gc": 50, "waiting": 300, "io": 200}}, struct {
		TID *int32           `json:"tid"`
		NS  map[string]int64 `json:"ns"`
	}{&two, map[string]int64{"running": 1000}}, struct {
		TID *int32           `json:"tid"`
		NS  map[string]int64 `json:"ns"`
	}{nil, map[string]int64{"sleeping": 1000}})
	truth := times{
		{1, holding, -100, 480}, {1, waiting, 480, 800}, {1, released, 800, 2000}, {2, holding, 0, 1000},
	}
	if mean, worst, ok := offPoints(&s, truth); !ok || math.Abs(mean-1) > 1e-9 || math.Abs(worst-2) > 1e-9 {
		t.Errorf("%g, at worst %g, %v", mean, worst, ok)
	}
	why := "too few"
	s.Quality.Lacks = map[string]*string{"states": &why}
	if _, _, ok := offPoints(&s, truth); ok {
		t.Error("shares that are not told have a distance")
	}
}
