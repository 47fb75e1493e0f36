package rivals

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

// exactServing is how long Rails is under load in each measurement.
const exactServing = 3 * time.Second

// BenchmarkExactRails measures what exact mode costs a Rails application under load, on a full machine and with a free
// CPU. Like BenchmarkExact, it measures exact mode, sampling at 1 kHz and no profiler, in turns. It also measures exact
// mode with its default limits of cost. ddtop measures one of the application's two workers.
func BenchmarkExactRails(b *testing.B) {
	wrk := rubytest.Program(b, "wrk", "wrk")
	path, app := buildOwn(b), servertest.StartRails(b, 2, 5)
	pid := app.Workers[0]
	if out, err := exec.Command(path, "stat", strconv.Itoa(pid), "-d", "100ms", "--exact").CombinedOutput(); err != nil {
		rubytest.Skip(b, "%s", out)
	}
	serve(b, wrk, app, 10, railsLength) // so that all code is loaded and cached before the measurement
	for _, l := range railsLoads {
		b.Run(l.name, func(b *testing.B) {
			for range b.N {
				burdenExactly(b, path, pid, func() answered { return answer(b, wrk, app, pid, l.connections, exactServing) })
			}
		})
	}
}

// burdenExactly measures what an application under load pays: it measures the application without ddtop and with each
// of the meters, in turns.
func burdenExactly(b *testing.B, path string, pid int, load func() answered) {
	b.Helper()
	all := append(fullRates(path), exactMeter(path, "exact-usual"))
	// Before a measurement without ddtop, there is a pause of exactAttach. ddtop gets the same time to attach. So the
	// application rests for the same time before each measurement.
	results, own := inRounds(b, rounds{pairsWanted(b, exactPairs), exactAttach, exactAttach}, all, pid, load)
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	for _, of := range []struct {
		name  string
		value func(answered) float64
	}{
		{"requests/s", func(a answered) float64 { return a.rate }},
		{"p50-ms", func(a answered) float64 { return a.p50 }},
		{"p99-ms", func(a answered) float64 { return a.p99 }},
		{"cpu-ms", func(a answered) float64 { return a.cpu }},
	} {
		values := make([][]float64, len(results))
		for i, way := range results {
			for _, a := range way {
				values[i] = append(values[i], of.value(a))
			}
		}
		none := values[len(all)]
		b.ReportMetric(median(none), "none-"+of.name)
		for i, m := range all {
			b.ReportMetric(median(values[i]), m.name+"-"+of.name)
			reportChange(b, m.name+"-more-"+of.name, values[i], none)
		}
	}
	for i, m := range all {
		reportCosts(b, m.name, own[i])
		if i > 0 {
			reportExact(b, m.name, own[i], true)
			reportChange(b, m.name+"-beside-1-kHz", shares(own[i]), shares(own[0]))
		}
	}
}
