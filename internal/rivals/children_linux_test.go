package rivals

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

const (
	// childrenWorkers is the number of worker processes that the master process starts.
	childrenWorkers = 8
	// childrenRounds is the number of measurements of each figure.
	childrenRounds = 5
)

// BenchmarkChildren measures what it costs to watch a cluster of Rails workers (`--children`) and to watch one worker
// alone. It reports the CPU time that the attach takes. It also reports the share of a CPU that ddtop takes after that,
// without requests and under load.
func BenchmarkChildren(b *testing.B) {
	wrk := rubytest.Program(b, "wrk", "wrk")
	app := servertest.StartRails(b, childrenWorkers, 5)
	serve(b, wrk, app, 2*childrenWorkers, railsLength) // so that all code is loaded and cached before the measurement
	for _, v := range versions(b) {
		one := stat(v.path, v.name)
		several := stat(v.path, v.name+"-children", "--children")
		several.said = saidOfSeveral
		for _, c := range []struct {
			name string
			meter
			pid int
		}{{"one", one, app.Workers[0]}, {"all", several, app.Master}} {
			b.Run(v.name+"/"+c.name, func(b *testing.B) {
				for range b.N {
					var attach, idle, loaded []float64
					for range childrenRounds {
						attach = append(attach, attachCost(b, c.meter, c.pid))
						share, _ := c.cost(b, c.pid, costLength)
						idle = append(idle, share)
						stop := underLoad(b, wrk, app)
						share, _ = c.cost(b, c.pid, costLength)
						loaded = append(loaded, share)
						stop()
					}
					// suppresses ns/op, which means nothing because the length of a run is fixed
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(median(attach), "attach-cpu-ms")
					b.ReportMetric(median(idle), "idle-%")
					b.ReportMetric(median(loaded), "loaded-%")
				}
			})
		}
	}
}

// attachCost returns the CPU time of a very short measurement, in ms. Nearly all of it is for the attach, the first
// samples and the report.
func attachCost(b *testing.B, m meter, pid int) float64 {
	b.Helper()
	s := m.start(b, pid, 10*time.Millisecond)
	s.result(b, <-s.ended)
	return float64((s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()).Microseconds()) / 1e3
}

// underLoad lets wrk send requests to the application until the returned function is called.
func underLoad(b *testing.B, wrk string, app *servertest.Rails) (stop func()) {
	b.Helper()
	cmd := exec.Command(wrk, "--threads", "1", "--connections", strconv.Itoa(2*childrenWorkers), "--duration", "1h",
		"--script", filepath.Join(app.Dir, "load.lua"), app.URL)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			b.Error(err)
		}
		_ = cmd.Wait() // the error says that the process was killed
	}
}

// saidOfSeveral reads ddtop's report about several processes. It returns the time during which every one of them was
// sampled, and the sum of their samples.
func saidOfSeveral(out []byte, _ string) (sampled, error) {
	var s struct{ Processes []json.RawMessage }
	if err := json.Unmarshal(out, &s); err != nil {
		return sampled{}, fmt.Errorf("%w in %.200q", err, out)
	}
	var all sampled
	for i, p := range s.Processes {
		one, err := saidByStat(p, "")
		if err != nil {
			return all, err
		}
		if i == 0 {
			all = one
			continue
		}
		all.from, all.until = max(all.from, one.from), min(all.until, one.until)
		all.samples += one.samples
	}
	return all, nil
}
