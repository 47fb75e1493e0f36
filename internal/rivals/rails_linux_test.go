package rivals

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

const (
	// railsPairs is the number of measured pairs. A pair has the requests per second with a profiler, and without one.
	railsPairs = 6
	// railsLength is the length of each measurement.
	railsLength = 4 * time.Second
	// attachTime is how long a benchmark waits for a profiler to attach before it measures. When the profiler ends
	// (started.end), the benchmark checks that this was enough.
	attachTime = 1500 * time.Millisecond
	// railsLimit is the run time that profilers are started with. It is longer than any measurement, because the
	// benchmark itself interrupts the profiler when a measurement ends.
	railsLimit = time.Hour
)

// railsLoads are the loads: a name and the number of connections that wrk opens. A single connection leaves one of two
// CPUs free. No name may be a part of another name, because -bench selects benchmarks by parts of names.
var railsLoads = []struct {
	name        string
	connections int
}{{"free-cpu", 1}, {"full", 10}}

// BenchmarkRails measures what ddtop and rbspy cost a Rails application under load (internal/servertest). It reports
// the profilers' own CPU time, requests per second, latencies, and the application's CPU time for a request. One of the
// application's two workers is profiled. A round has one measurement with each profiler, and one without. Every second
// round has the reverse order, so that changes of the machine affect all alike.
func BenchmarkRails(b *testing.B) {
	wrk := rubytest.Program(b, "wrk", "wrk")
	var all []meter
	for _, v := range versions(b) {
		all = append(all, stat(v.path, v.name), stat(v.path, v.name+"-polling", "--source", "polling"))
	}
	if path, ok := findRbspy(); ok {
		all = append(all, rbspyMeter(path))
	} else {
		b.Log(noRbspy)
	}
	app := servertest.StartRails(b, 2, 5)
	pid := app.Workers[0]
	load := func(connections int) answered { return answer(b, wrk, app, pid, connections, railsLength) }
	load(10) // so that all code is loaded and cached before the measurement
	for _, l := range railsLoads {
		b.Run(l.name, func(b *testing.B) {
			for range b.N {
				burden(b, all, pid, func() answered { return load(l.connections) })
			}
		})
	}
}

const (
	// leastRequestPairs and mostRequestPairs are the smallest and the largest number of pairs that BenchmarkPerRequest
	// measures. After the smallest number, it stops as soon as the additional CPU time for a request is known well
	// enough. This is the case when the 95 % interval extends at most preciseTo percent to each side.
	leastRequestPairs, mostRequestPairs = 20, 200
	preciseTo                           = 2.
	// pairedRequests is the number of requests in each half of a pair: one half with ddtop, one without. A half takes
	// about 3 s. The load asks for the same pages again after 40 requests, so both halves do the same work.
	pairedRequests = 240
)

// BenchmarkPerRequest measures how much more CPU time a request of Rails takes with ddtop. It also measures how many
// fewer requests per second are served over one connection. It measures pairs with and without ddtop until the 95 %
// interval of the difference is narrow.
func BenchmarkPerRequest(b *testing.B) {
	wrk := rubytest.Program(b, "wrk", "wrk")
	app := servertest.StartRails(b, 1, 5)
	pid := app.Workers[0]
	load := func() answered { return answerAll(b, wrk, app, pid, pairedRequests) }
	for range 2 {
		load() // so that all code is loaded and cached before the measurement
	}
	ddtop := stat(buildOwn(b), "ddtop")
	for range b.N {
		perRequest(b, ddtop, pid, load)
	}
}

// perRequest measures one profiler, for BenchmarkPerRequest.
func perRequest(b *testing.B, m meter, pid int, load func() answered) {
	b.Helper()
	attach := attachTime
	var cpu, fewer []float64
	for len(cpu) < mostRequestPairs {
		var with, without answered
		for k := range 2 {
			if (len(cpu)+k)%2 == 0 { // alternate the order, so that changes of the machine affect both equally
				time.Sleep(attach)
				without = load()
				continue
			}
			with, _ = beside(b, m, pid, &attach, load)
		}
		cpu = append(cpu, 100*(with.cpu/without.cpu-1))
		fewer = append(fewer, 100*(1-with.rate/without.rate))
		if low, high := medianInterval(cpu); len(cpu) >= leastRequestPairs && high-low <= 2*preciseTo {
			break
		}
	}
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	b.ReportMetric(float64(len(cpu)), "pairs")
	for name, values := range map[string][]float64{"more-cpu": cpu, "fewer-requests": fewer} {
		low, high := medianInterval(values)
		b.ReportMetric(median(values), name+"-%")
		b.ReportMetric(low, name+"-low-%")
		b.ReportMetric(high, name+"-high-%")
	}
}

// served is what wrk measured of an application under load: requests a second, and latencies in ms.
type served struct{ rate, p50, p99 float64 }

// answered is what was measured of an application under load. cpu is the CPU time of one of its workers for each
// request that this worker answered, in ms.
type answered struct {
	served
	cpu float64
}

// answer puts the shop (the Rails application) under load for the given time, and measures one of its workers.
func answer(b *testing.B, wrk string, app *servertest.Rails, pid, connections int, length time.Duration) (a answered) {
	b.Helper()
	done, cpu := app.Completed(b, pid), processCPU(b, pid)
	a.served = serve(b, wrk, app, connections, length)
	cpu = processCPU(b, pid) - cpu
	a.cpu = cpu.Seconds() * 1e3 / float64(app.Completed(b, pid)-done)
	return a
}

// answerAll makes a number of requests to the shop, one after the other, and measures its only worker.
func answerAll(b *testing.B, wrk string, app *servertest.Rails, pid, requests int) (a answered) {
	b.Helper()
	began, cpu := monotonic(), processCPU(b, pid)
	out, err := exec.Command(wrk, "--threads", "1", "--connections", "1", "--duration", "10m", "--timeout", "30s",
		"--script", filepath.Join(app.Dir, "load.lua"), app.URL, "--", strconv.Itoa(requests)).CombinedOutput()
	if err != nil {
		b.Fatalf("wrk: %v\n%s", err, out)
	}
	a.cpu = (processCPU(b, pid) - cpu).Seconds() * 1e3 / float64(requests)
	a.rate = float64(requests) / (monotonic() - began).Seconds()
	return a
}

// burden measures an application under load with each profiler and without one, and reports what each profiler costs.
func burden(b *testing.B, all []meter, pid int, load func() answered) {
	b.Helper()
	// Before a measurement without a profiler, there is a pause of attachTime. A profiler gets the same time to attach.
	// So the application rests for the same time before each measurement.
	results, own := inRounds(b, rounds{pairsWanted(b, railsPairs), attachTime, attachTime}, all, pid, load)
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	reportServed(b, "none", results[len(all)])
	for i, p := range all {
		var fewer, cpu, without []float64
		for round, with := range results[i] {
			none := results[len(all)][round]
			fewer = append(fewer, 100*(1-with.rate/none.rate))
			cpu, without = append(cpu, with.cpu), append(without, none.cpu)
		}
		reportChange(b, p.name+"-more-cpu-ms", cpu, without)
		low, high := medianInterval(fewer)
		reportCosts(b, p.name, own[i])
		b.ReportMetric(median(fewer), p.name+"-fewer-requests-%")
		b.ReportMetric(low, p.name+"-fewer-requests-low-%")
		b.ReportMetric(high, p.name+"-fewer-requests-high-%")
		reportServed(b, p.name, results[i])
	}
}

func reportServed(b *testing.B, name string, all []answered) {
	b.Helper()
	var rate, p50, p99, cpu []float64
	for _, s := range all {
		rate, p50, p99, cpu = append(rate, s.rate), append(p50, s.p50), append(p99, s.p99), append(cpu, s.cpu)
	}
	b.ReportMetric(median(cpu), name+"-cpu-ms")
	b.ReportMetric(median(rate), name+"-requests/s")
	b.ReportMetric(median(p50), name+"-p50-ms")
	b.ReportMetric(median(p99), name+"-p99-ms")
}

var (
	requestRate = regexp.MustCompile(`Requests/sec: +([\d.]+)`)
	latency     = regexp.MustCompile(`\n +(50|99)% +([\d.]+)(us|ms|s) *\n`)
)

// serve sends requests to the shop for the given length of time, which must be in whole seconds.
func serve(b *testing.B, wrk string, app *servertest.Rails, connections int, length time.Duration) served {
	b.Helper()
	out, err := exec.Command(wrk, "--threads", "1", "--connections", strconv.Itoa(connections), "--duration", fmt.Sprintf("%ds", int(length.Seconds())),
		"--timeout", "30s", "--latency", "--script", filepath.Join(app.Dir, "load.lua"), app.URL).CombinedOutput()
	if err != nil {
		b.Fatalf("wrk: %v\n%s", err, out)
	}
	s, err := parseWrk(string(out))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// parseWrk reads the output of wrk --latency. It returns an error if requests failed.
func parseWrk(out string) (served, error) {
	var s served
	rate, latencies := requestRate.FindStringSubmatch(out), latency.FindAllStringSubmatch(out, -1)
	if rate == nil || len(latencies) != 2 || strings.Contains(out, "Non-2xx") || strings.Contains(out, "Socket errors") {
		return s, fmt.Errorf("wrk said:\n%s", out)
	}
	var err error
	if s.rate, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return s, err
	}
	for i, into := range []*float64{&s.p50, &s.p99} {
		took, err := time.ParseDuration(latencies[i][2] + latencies[i][3])
		if err != nil {
			return s, err
		}
		*into = float64(took) / float64(time.Millisecond)
	}
	return s, nil
}

func TestParseWrk(t *testing.T) {
	const out = `Running 4s test @ http://127.0.0.1:3000
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    66.15ms   45.01ms 261.55ms   74.57%
    Req/Sec   155.03     21.51   200.00     72.50%
  Latency Distribution
     50%  960.00us
     75%   86.40ms
     90%  129.32ms
     99%    1.20s 
  622 requests in 4.01s, 1.97MB read
Requests/sec:    155.06
Transfer/sec:    502.11KB
`
	got, err := parseWrk(out)
	if want := (served{155.06, 0.96, 1200}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", out + "  Non-2xx or 3xx responses: 3\n", out + "  Socket errors: connect 0, read 1, write 0, timeout 0\n"} {
		if got, err := parseWrk(bad); err == nil {
			t.Errorf("%+v of\n%s", got, bad)
		}
	}
}
