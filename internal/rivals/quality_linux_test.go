package rivals

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/gvl"
	gvlmeasure "github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// qualityRounds is how often each source of threads' states is measured under each load. DDTOP_BENCH_PAIRS sets
	// another number.
	qualityRounds = 3
	// qualityLength is the length of a measurement. The figures and findings on the screen cover the same time.
	qualityLength = sampler.QualityWindow
	// qualityThreads is the number of Puma's threads in the loads with Rails. forkedWorkers is the number of processes
	// in the load "50-workers".
	qualityThreads, forkedWorkers = 5, 50
	// longWaitNS is the shortest wait for the GVL that counts, in ns. longRequestNS is the shortest time of a request
	// that counts as long, in ns.
	longWaitNS, longRequestNS = 1_000_000, 20_000_000
)

// sourceNames are all sources from which a ddtop can learn the states of threads (`--source`).
var sourceNames = []string{"switches", "moved", "polling"}

// sources returns the sources from sourceNames that this version of ddtop has and this machine allows.
func sources(b *testing.B, path string) (out []string) {
	b.Helper()
	for _, name := range sourceNames {
		if err := exec.Command(path, "stat", "--source", name, "--help").Run(); err != nil {
			continue // this version of ddtop does not know the source
		}
		if err := live.CheckSwitches(); name == "switches" && err != nil {
			b.Logf("left out: by switches: %v", err)
			continue
		}
		out = append(out, name)
	}
	return out
}

// span is an interval in which a native thread did one of three things: it held the GVL, waited for it, or had released
// it.
type span struct {
	tid          int32
	place        place
	fromNS, toNS int64
}

// place is what a thread does with the GVL: it holds the GVL, waits for it, or has released it.
type place int

const (
	holding place = iota
	waiting
	released
	places
)

// overlap returns how long two spans overlap, in ns. It is zero if they are of different threads.
func (s *span) overlap(o *span) int64 {
	if s.tid != o.tid {
		return 0
	}
	return max(min(s.toNS, o.toNS)-max(s.fromNS, o.fromNS), 0)
}

// told is what samples show about a process in a period of time. A told of exact mode is the truth. A told of ddtop's
// recording is compared with it.
type told struct {
	gvl.Ignore
	fromNS, toNS           int64
	times, waits, requests []span
	// stacks judges each stack that was read.
	stacks  verdict
	quality sampler.Quality
	tids    map[sampler.ThreadID]int32
	dict    *sampler.Dictionary
	measure *gvlmeasure.Measure
}

// newTold returns a told without samples.
func newTold(p sampler.Process, dict *sampler.Dictionary) *told {
	k := &told{tids: make(map[sampler.ThreadID]int32), dict: dict, measure: gvlmeasure.New(p, dict, nil)}
	k.measure.Stream().Attach(k)
	return k
}

// take adds a sample.
func (k *told) take(x *sampler.Sample) {
	if k.fromNS == 0 {
		k.fromNS = x.TimeNS
	}
	k.toNS = x.TimeNS
	for i := range x.Threads {
		t := &x.Threads[i]
		k.tids[t.ID] = t.TID
		if t.Quality&sampler.StackFresh != 0 {
			k.judge(t.ID, t.Stack)
		}
	}
	for i := range x.Changes.List {
		k.judge(x.Changes.List[i].Thread, x.Changes.List[i].Stack)
	}
	k.measure.Feed(x)
}

// judge adds a stack to the verdict.
func (k *told) judge(thread sampler.ThreadID, stack sampler.StackID) {
	if stack != 0 {
		k.stacks.judge(strconv.FormatUint(uint64(thread), 10), framesOf(k.dict, stack))
	}
}

// Interval keeps an interval of a thread.
func (k *told) Interval(i *gvl.Interval) {
	s := span{tid: k.tids[i.Thread], place: released, fromNS: i.FromNS, toNS: i.ToNS}
	switch {
	case i.State.Held():
		s.place = holding
	case i.State == gvl.Waiting:
		s.place = waiting
	}
	k.times = append(k.times, s)
}

// Waited keeps a wait.
func (k *told) Waited(w *gvl.Wait) {
	k.waits = append(k.waits, span{tid: k.tids[w.Thread], place: waiting, fromNS: w.FromNS, toNS: w.ToNS})
}

// finish ends the stream, and takes the requests and the quality from its results.
func (k *told) finish() {
	k.measure.Stream().Finish()
	k.quality = k.measure.Stat(0).Quality.Of
	for _, r := range k.measure.LongestRequests(math.MaxInt) {
		k.requests = append(k.requests, span{tid: k.tids[r.Thread], fromNS: r.FromNS, toNS: r.ToNS})
	}
}

// lacks reports whether the quality of the figures of kind f is too low. ddtop does not show such figures.
func (k *told) lacks(f sampler.Figure) bool { return k.quality.Lacks(f) != "" }

// offPoints compares each thread's shares of time with the truth, in percentage points. A thread has three shares: with
// the GVL, waiting for it and without it. The thread's error is the largest of its three differences. mean is the mean
// error of all threads, and worst is the largest error. ok is false if the quality is too low to show the shares.
func (k *told) offPoints(truth *told) (mean, worst float64, ok bool) {
	if k.lacks(sampler.FigureStates) || k.toNS <= k.fromNS {
		return 0, 0, false
	}
	sums := func(of []span) map[int32]*[places]int64 {
		out := make(map[int32]*[places]int64)
		for _, i := range of {
			if out[i.tid] == nil {
				out[i.tid] = new([places]int64)
			}
			out[i.tid][i.place] += i.overlap(&span{tid: i.tid, fromNS: k.fromNS, toNS: k.toNS})
		}
		return out
	}
	exactly, n := sums(truth.times), 0
	for tid, is := range sums(k.times) {
		was := exactly[tid]
		if was == nil {
			continue // the thread neither held nor wanted the GVL
		}
		off := 0.0
		for p := range places {
			off = max(off, 100*math.Abs(float64(is[p]-was[p]))/float64(k.toNS-k.fromNS))
		}
		mean, worst, n = mean+off, max(worst, off), n+1
	}
	if n == 0 {
		return 0, 0, false
	}
	return mean / float64(n), worst, true
}

// waitsFound returns how many of the true waits for the GVL are also in k, in percent. Only waits of at least
// longWaitNS count. A wait is found if k has at least half of its time. The result is NaN if there is no such wait.
func (k *told) waitsFound(truth *told) float64 {
	found, of := 0, 0
	for i := range truth.waits {
		w := &truth.waits[i]
		if w.tid == 0 || w.toNS-w.fromNS < longWaitNS || w.fromNS < k.fromNS || w.toNS > k.toNS {
			continue
		}
		of++
		ns := int64(0)
		for j := range k.waits {
			ns += k.waits[j].overlap(w)
		}
		if 2*ns >= w.toNS-w.fromNS {
			found++
		}
	}
	if of == 0 {
		return math.NaN()
	}
	return percent(found, of)
}

// requestsSeen compares the requests in k with the application's log. long is about the logged requests of at least
// longRequestNS: the percentage that is also in k. short is the same for shorter requests. A logged request is seen if
// a request in k has at least half of its time. Each request in k counts for only one logged request. off is the median
// error of the times of long requests, in percent. A result is NaN if there are no such requests.
func (k *told) requestsSeen(log []servertest.Logged) (long, short, off float64) {
	var requests []span
	for _, l := range log {
		if l.Kind == "R" && l.FromNS > k.fromNS && l.ToNS < k.toNS {
			requests = append(requests, span{tid: l.TID, fromNS: l.FromNS, toNS: l.ToNS})
		}
	}
	best := make([]*span, len(requests)) // for each request of the log, the request of k that overlaps it most
	for i := range k.requests {
		at, most := 0, int64(0)
		for j := range requests {
			if ns := k.requests[i].overlap(&requests[j]); ns > most {
				at, most = j, ns
			}
		}
		if most > 0 && (best[at] == nil || best[at].overlap(&requests[at]) < most) {
			best[at] = &k.requests[i]
		}
	}
	var found, of [2]int // 0 is for short requests, 1 for long ones
	var lengths []float64
	for i := range requests {
		r, is := &requests[i], 0
		if r.toNS-r.fromNS >= longRequestNS {
			is = 1
		}
		of[is]++
		if best[i] == nil || 2*best[i].overlap(r) < r.toNS-r.fromNS {
			continue
		}
		if found[is]++; is == 1 {
			lengths = append(lengths, 100*math.Abs(float64(best[i].toNS-best[i].fromNS)/float64(r.toNS-r.fromNS)-1))
		}
	}
	share := func(is int) float64 {
		if of[is] == 0 {
			return math.NaN()
		}
		return percent(found[is], of[is])
	}
	return share(1), share(0), median(lengths)
}

// railsFull and railsHalf are names of loads. Only for these loads, leastQuality has the worst accepted figures.
const railsFull, railsHalf = "rails-full", "rails-half"

// qualityLoad is a program under load, of which one process is measured.
type qualityLoad struct {
	name string
	// start starts the load and returns the PID of the process to measure.
	start func(b *testing.B) int
	// exact is true if exact mode measures the process at the same time, for comparison. log is the path of the
	// application's log of requests, or "".
	exact bool
	log   string
	args  []string
	// judged is true if the test knows which function of the load may call which other function. Only then are
	// impossible stacks counted.
	judged bool
}

// BenchmarkQuality measures what ddtop costs at its defaults and how good its figures are, for each source of threads'
// states. It compares shares of time and waits with exact mode in the same seconds. It compares requests with the
// application's log. It also counts impossible stacks.
func BenchmarkQuality(b *testing.B) {
	path := buildOwn(b)
	if stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		b.Logf("left out: what the kernel takes for programs: %v", err)
	} else {
		defer stats.Close()
	}
	// A benchmark that fails at once prints no figures. So this benchmark collects all faults, and fails only at the
	// end.
	var low []string
	for _, l := range qualityLoads(b) {
		b.Run(l.name, func(b *testing.B) {
			pid := l.start(b)
			for range b.N {
				for _, source := range sources(b, path) {
					low = append(low, measureQuality(b, path, source, pid, l)...)
				}
				measureRbspy(b, pid, l)
				b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
			}
		})
	}
	for _, fault := range low {
		b.Error(fault)
	}
}

// qualityLoads returns the loads. It starts the Rails application itself, because several loads use it. Requests and
// other programs are started later, by the load's function start.
func qualityLoads(b *testing.B) []qualityLoad {
	b.Helper()
	wrk := rubytest.Program(b, "wrk", "wrk")
	app := servertest.StartLoggingRails(b, 1, qualityThreads)
	under := func(connections int) func(*testing.B) int {
		return func(b *testing.B) int {
			cmd := exec.Command(wrk, "--threads", "1", "--connections", strconv.Itoa(connections), "--duration", "1h", "--script",
				filepath.Join(app.Dir, "load.lua"), app.URL)
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				_ = cmd.Process.Kill() // fails only if the process has ended by itself
				_ = cmd.Wait()         // the error says that the process was killed
			})
			return app.Workers[0]
		}
	}
	ruby := theRuby(b)
	runs := func(script string) func(*testing.B) int {
		return func(b *testing.B) int {
			p := ruby.Start(b, script, rubytest.Options{})
			p.Expect(b, "up")
			return p.PID
		}
	}
	return []qualityLoad{
		{name: railsFull, start: under(10), exact: true, log: app.Log},
		{name: railsHalf, start: under(1), exact: true, log: app.Log},
		{name: "idle", start: runs(costScript(0, 10, 1)), exact: true},
		{name: "500-threads", start: runs(costScript(2, 498, 0.02)), exact: true},
		{name: "50-workers", start: runs(forkedScript), args: []string{"--children"}},
		// without exact mode, because its breakpoints would change this load too much
		{name: "many-switches", start: runs(switchesScript)},
		{name: "known-calls", start: runs(script), exact: true, judged: true},
	}
}

// forkedScript is a program with many processes, which wake up and compute a little.
var forkedScript = fmt.Sprintf(`
%d.times { fork { Thread.new { loop { 2000.times { }; sleep 0.05 } }; sleep } }
puts "up"
$stdout.flush
$stdin.gets
`, forkedWorkers)

// switchesScript is a program with threads that wait for each other's bytes. It makes tens of thousands of thread
// switches a second.
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

// measureQuality measures one source of threads' states and reports its figures. It returns the faults: figures below
// leastQuality and impossible stacks.
func measureQuality(b *testing.B, path, source string, pid int, l qualityLoad) (low []string) {
	b.Helper()
	figures := make(map[string][]float64)
	add := func(name string, v float64) {
		if !math.IsNaN(v) {
			figures[name] = append(figures[name], v)
		}
	}
	args := append([]string{"--source", source}, l.args...)
	impossible, stacks := 0, 0
	for range pairsWanted(b, qualityRounds) {
		truth, endTruth := exactBeside(b, pid, l.exact)
		var last []*told
		m := keeping(path, source, &last, args)
		if l.args != nil {
			m = stat(path, source, args...) // uses `ddtop stat`, because a recording covers only one process
			m.said = saidOfSeveral
		}
		share, said := m.cost(b, pid, qualityLength)
		known := endTruth()
		add("-%", share)
		add("-kernel-%", said.kernel)
		add("-lock-Hz", said.lockHz)
		add("-stack-Hz", said.stackHz)
		add("-screen-%", screenShare(b, path, pid, args))
		for _, k := range last {
			for f := range sampler.NumFigures {
				tells := 100.0
				if k.lacks(f) {
					tells = 0
				}
				add("-told-"+f.String()+"-%", tells)
			}
			impossible, stacks = impossible+k.stacks.impossible, stacks+k.stacks.stacks
			if l.log != "" {
				long, short, off := k.requestsSeen(servertest.RequestLog(b, l.log))
				add("-long-requests-%", long)
				add("-short-requests-%", short)
				add("-length-off-%", off)
			}
			if !known {
				continue
			}
			add("-waits-%", k.waitsFound(truth))
			if off, worst, ok := k.offPoints(truth); ok {
				add("-off-points", off)
				add("-worst-points", worst)
			}
		}
	}
	for name, values := range figures {
		v := median(values)
		switch {
		case strings.HasPrefix(name, "-told-"):
			v = mean(values)
		case name == "-worst-points":
			v = slices.Max(values)
		}
		b.ReportMetric(v, source+name)
		if fault := leastQuality[l.name][source].check(name, v); fault != "" && l.log != "" {
			low = append(low, l.name+" by "+source+": "+fault)
		}
	}
	if impossible > 0 {
		low = append(low, fmt.Sprintf("%s by %s: %d of %d stacks are impossible", l.name, source, impossible, stacks))
	}
	if l.judged {
		b.ReportMetric(float64(impossible), source+"-impossible")
		b.ReportMetric(float64(stacks), source+"-stacks")
	}
	return low
}

// floors are the worst figures that a benchmark accepts. Waits and requests are shares in percent. A share of zero
// accepts everything.
type floors struct{ offPoints, waits, longRequests, shortRequests float64 }

// leastQuality has the worst figures that are accepted, by load and source. BenchmarkQuality fails if it measures worse
// figures with Rails. So a change cannot lower the cost by lowering the quality. These values are not the aims: they
// leave room for chance, so that one run of 10 s reaches them. On a half-full machine, most waits are shorter than the
// time between two readings of polling. So polling finds such a wait only by chance.
var leastQuality = map[string]map[string]floors{
	railsFull: {
		"switches": {offPoints: 1, waits: 95, longRequests: 85, shortRequests: 70},
		"moved":    {offPoints: 6, waits: 40},
		"polling":  {offPoints: 6, waits: 25},
	},
	railsHalf: {
		"switches": {offPoints: 1, waits: 90, longRequests: 85, shortRequests: 70},
		"moved":    {offPoints: 6, waits: 40},
		"polling":  {offPoints: 6},
	},
}

// check compares a figure with its floor, the worst accepted value. It returns a message if the figure is worse, and ""
// otherwise.
func (f floors) check(name string, v float64) string {
	switch {
	case name == "-off-points" && v > f.offPoints:
		return fmt.Sprintf("shares are %.2f points off, at most %g are accepted", v, f.offPoints)
	case name == "-waits-%" && v < f.waits:
		return fmt.Sprintf("%.0f %% of the waits were found, at least %g %% are accepted", v, f.waits)
	case name == "-long-requests-%" && v < f.longRequests:
		return fmt.Sprintf("%.0f %% of the longer requests were seen, at least %g %% are accepted", v, f.longRequests)
	case name == "-short-requests-%" && v < f.shortRequests:
		return fmt.Sprintf("%.0f %% of the shorter requests were seen, at least %g %% are accepted", v, f.shortRequests)
	}
	return ""
}

// measureRbspy reports what rbspy costs on a load with one process. rbspy reads only one thread of the process.
func measureRbspy(b *testing.B, pid int, l qualityLoad) {
	b.Helper()
	path, found := findRbspy()
	if !found || l.args != nil {
		return
	}
	attach := attachTime
	var shares, rates []float64
	for range pairsWanted(b, qualityRounds) {
		_, c := beside(b, rbspyMeter(path), pid, &attach, func() bool { time.Sleep(qualityLength); return true })
		shares = append(shares, c.share)
		rates = append(rates, float64(c.said.samples)/(attach+qualityLength).Seconds())
	}
	b.ReportMetric(median(shares), "rbspy-%")
	b.ReportMetric(median(rates), "rbspy-stack-Hz")
}

// keeping returns a meter that runs ddtop and keeps its recording. After a measurement, *last holds the contents of the
// recording.
func keeping(path, name string, last *[]*told, args []string) meter {
	return meter{name: name,
		command: func(pid int, length time.Duration, file string) *exec.Cmd {
			return exec.Command(path, append([]string{"record", "--pid", strconv.Itoa(pid), "--duration", length.String(), "--format", "ddtop",
				"--output", file}, args...)...)
		},
		said: func(_ []byte, file string) (sampled, error) {
			r, err := recording.Open(file)
			if err != nil {
				return sampled{}, err
			}
			defer r.Close()
			k := newTold(r.Process(), r.Dictionary())
			if err := r.Range(math.MinInt64, math.MaxInt64, k.take); err != nil {
				return sampled{}, err
			}
			k.finish()
			*last = []*told{k}
			rate := k.measure.Stat(0).Rate
			return sampled{from: time.Duration(k.fromNS), until: time.Duration(k.toNS), samples: int(k.quality.Samples),
				stackHz: rate.Stack.Achieved, lockHz: rate.Lock.Achieved}, nil
		}}
}

// exactBeside measures a process in exact mode until the returned function is called. This function reports whether
// exact mode was on all the time.
func exactBeside(b *testing.B, pid int, exact bool) (*told, func() bool) {
	b.Helper()
	if !exact {
		return nil, func() bool { return false }
	}
	s, err := live.Open(b.Context(), pid, live.Options{StackRate: 1, LockRate: 1})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Exact(b.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
		b.Logf("without exact mode beside it: %v", err)
		return nil, func() bool { s.Close(); return false }
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	k := newTold(s.Process(), s.Dictionary())
	go func() { done <- s.Run(ctx, k.take) }()
	time.Sleep(attachTime)
	return k, func() bool {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		k.finish()
		report, err := s.EndExact()
		s.Close()
		if err != nil || report.Ended != "" || report.Lost != 0 {
			b.Logf("exact mode: %v, ended %q, %d records lost", err, report.Ended, report.Lost)
			return false
		}
		return true
	}
}

// TestOffPoints: offPoints must compare only the time in which ddtop has samples (k), and only threads that exact mode
// has seen, too. It must return no result if the quality of k is too low to show shares.
func TestOffPoints(t *testing.T) {
	k := told{toNS: 1000, quality: sampler.Quality{SpanNS: 1e10, IdleNS: 1e10}, times: []span{
		{1, holding, -50, 500}, {1, waiting, 500, 800}, {1, released, 800, 1100}, {2, holding, 0, 1000}, {3, released, 0, 1000},
	}}
	truth := told{times: []span{
		{1, holding, -100, 480}, {1, waiting, 480, 800}, {1, released, 800, 2000}, {2, holding, 0, 1000},
	}}
	if mean, worst, ok := k.offPoints(&truth); !ok || math.Abs(mean-1) > 1e-9 || math.Abs(worst-2) > 1e-9 {
		t.Errorf("%g, at worst %g, %v", mean, worst, ok)
	}
	k.quality = sampler.Quality{}
	if _, _, ok := k.offPoints(&truth); ok {
		t.Error("shares that lack quality have a distance")
	}
}

// TestWaitsFound: a true wait counts as found if the same thread waits in k for at least half of the wait's time. True
// waits do not count if they are too short or end after the time that k covers.
func TestWaitsFound(t *testing.T) {
	const ms = 1_000_000
	truth := told{waits: []span{
		{1, waiting, 10 * ms, 20 * ms}, {1, waiting, 30 * ms, 40 * ms}, {2, waiting, 10 * ms, 12 * ms}, {2, waiting, 20 * ms, 24 * ms},
		// one wait is too short, and one ends after the time that k covers
		{2, waiting, 30 * ms, 30*ms + ms/2}, {1, waiting, 95 * ms, 105 * ms},
	}}
	k := told{toNS: 100 * ms, waits: []span{{1, waiting, 14 * ms, 34 * ms}, {2, waiting, 20 * ms, 21 * ms}, {2, waiting, 22 * ms, 23 * ms}}}
	if got := k.waitsFound(&truth); got != 50 {
		t.Errorf("%g %%", got)
	}
	if got := k.waitsFound(&told{}); !math.IsNaN(got) {
		t.Errorf("%g %% of none", got)
	}
}

// TestRequestsSeen: a request that ddtop saw may count for only one request in the log: the one with which it shares
// the most time.
func TestRequestsSeen(t *testing.T) {
	const ms = 1_000_000
	logged := func(tid int32, from, to int64) servertest.Logged {
		return servertest.Logged{Kind: "R", TID: tid, FromNS: from * ms, ToNS: to * ms}
	}
	k := told{fromNS: 1, toNS: 1000 * ms, requests: []span{{1, 0, 10 * ms, 54 * ms}, {1, 0, 60 * ms, 70 * ms}, {2, 0, 100 * ms, 200 * ms}}}
	long, short, off := k.requestsSeen([]servertest.Logged{
		logged(1, 10, 50), logged(1, 50, 54), // k has only one request for these two
		logged(1, 60, 66), logged(1, 80, 81),
		logged(2, 100, 150), logged(2, 150, 190), logged(2, 900, 1100), {Kind: "S", TID: 2, FromNS: 1, ToNS: ms},
	})
	if math.Abs(long-200.0/3) > 1e-9 || math.Abs(short-100.0/3) > 1e-9 || math.Abs(off-55) > 1e-9 {
		t.Errorf("%g %% of the long ones, %g %% of the short ones, lengths off by %g %%", long, short, off)
	}
}
