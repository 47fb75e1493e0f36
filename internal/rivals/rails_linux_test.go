package rivals

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

const (
	// railsPairs is how often the requests a second with a profiler are compared with those without.
	railsPairs = 10
	// railsSeconds is how long each of the two is.
	railsSeconds = 5
	// attachSeconds is what a profiler may take until it samples; it is not measured.
	attachSeconds = 2
)

// BenchmarkRails measures what ddtop and rbspy cost a Rails application under load (internal/servertest): their own CPU time, and
// requests a second with and without them, in pairs. One worker of two is profiled.
func BenchmarkRails(b *testing.B) {
	wrk := rubytest.Program(b, "wrk", "wrk")
	own := buildOwn(b)
	all := []profiler{ddtop(own, "ddtop"), ddtop(own, "ddtop-stacks-alone", "--lock-rate", "100")}
	if before := os.Getenv("DDTOP_BENCH_BEFORE"); before != "" {
		all = append(all, ddtop(before, "before"), ddtop(before, "before-stacks-alone", "--lock-rate", "100"))
	}
	if path, err := exec.LookPath("rbspy"); err == nil {
		all = append(all, rbspy(path, "rbspy"))
	} else {
		b.Log("rbspy is not on PATH; `cargo install rbspy` gets it")
	}
	app := servertest.StartRails(b, 2, 5)
	load := func(connections int) float64 { return requests(b, wrk, app, connections) }
	load(10) // everything is loaded and cached
	for _, l := range []struct {
		name        string
		connections int
	}{{"half-full", 1}, {"full", 10}} {
		b.Run(l.name, func(b *testing.B) {
			for _, p := range all {
				b.Run(p.name, func(b *testing.B) {
					for range b.N {
						burden(b, p, app.Workers[0], func() float64 { return load(l.connections) })
					}
				})
			}
		})
	}
}

// burden reports what a profiler costs under a load, which returns requests a second.
func burden(b *testing.B, p profiler, pid int, load func() float64) {
	b.Helper()
	var own, fewer, rates []float64
	for i := range railsPairs {
		var without, with float64
		if i%2 == 0 { // what the machine does meanwhile is to hit both alike
			without = load()
		}
		cmd := p.command(pid, 2*attachSeconds+railsSeconds, filepath.Join(b.TempDir(), "out"))
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(attachSeconds * time.Second)
		cpu, begin := cpuTime(b, cmd.Process.Pid), time.Now()
		with = load()
		used := cpuTime(b, cmd.Process.Pid) - cpu
		own = append(own, 100*used.Seconds()/time.Since(begin).Seconds())
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			b.Fatal(err)
		}
		_ = cmd.Wait() // interrupted
		if i%2 == 1 {
			without = load()
		}
		fewer, rates = append(fewer, 100*(1-with/without)), append(rates, without)
	}
	slices.Sort(fewer)
	b.ReportMetric(0, "ns/op") // a run's length is chosen, not measured
	b.ReportMetric(median(own), "own-cpu-%")
	b.ReportMetric(median(fewer), "fewer-requests-%")
	b.ReportMetric(fewer[len(fewer)/4], "fewer-requests-%-quarter")
	b.ReportMetric(fewer[3*len(fewer)/4], "fewer-requests-%-three-quarters")
	b.ReportMetric(median(rates), "requests/s")
}

var requestRate = regexp.MustCompile(`Requests/sec: +([\d.]+)`)

// requests puts the shop under load and returns the requests it answered a second.
func requests(b *testing.B, wrk string, app *servertest.Rails, connections int) float64 {
	b.Helper()
	out, err := exec.Command(wrk, "--threads", "1", "--connections", strconv.Itoa(connections), "--duration", fmt.Sprintf("%ds", railsSeconds),
		"--timeout", "30s", "--script", filepath.Join(app.Dir, "load.lua"), app.URL).CombinedOutput()
	m := requestRate.FindSubmatch(out)
	if err != nil || m == nil || strings.Contains(string(out), "Non-2xx") {
		b.Fatalf("wrk: %v\n%s", err, out)
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}

// cpuTime is what the threads of a process have had of CPUs until now, without those that have ended.
func cpuTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			b.Fatalf("%s: %v", file, err)
		}
		sum += time.Duration(ran)
	}
	return sum
}
