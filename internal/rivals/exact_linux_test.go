package rivals

import (
	_ "embed" // the program
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// exactScript is a program of one kind of work, which says what it has done and taken.
//
//go:embed testdata/exact.rb
var exactScript string

// exactLoads are what exact mode is measured on: the arguments of exactScript.
var exactLoads = [][]string{
	{"compute"}, {"allocate"}, {"sleepers"}, {"turns", "500"}, {"turns", "5000"}, {"turns", "15000"}, {"turns", "50000"}, {"turns", "150000"},
}

const (
	// exactPairs is how often a process is measured each way; DDTOP_BENCH_PAIRS is another number.
	exactPairs = 20
	// exactWindow is how long each time.
	exactWindow = 2 * time.Second
)

// exactMeters are sampling at full rates and exact mode without a budget. exact is told what the latter says at its end.
func exactMeters(path string, told func(*exact.Stat)) []meter {
	m := stat(path, "exact", "--overhead", "off", "--exact", "--exact-cost", "off")
	m.said = func(out []byte, file string) (sampled, error) {
		var s struct{ Exact *exact.Stat }
		if err := json.Unmarshal(out, &s); err != nil || s.Exact == nil || s.Exact.Wrong || s.Exact.Ended != "" {
			return sampled{}, fmt.Errorf("what exact mode says is not to be used: %+v, %w", s.Exact, err)
		}
		told(s.Exact)
		return saidByStat(out, file)
	}
	return []meter{stat(path, "1-kHz", "--overhead", "off"), m}
}

// did is what a process has done and taken until an instant: pieces of work, CPU time and time in ns.
type did struct{ done, cpu, at float64 }

// BenchmarkExact measures what exact mode costs, beside sampling at 1 kHz and beside none, in turns: its own CPU time, and by how much
// less the process does, and takes more of a CPU for a piece of its work. Rails is measured where its Ruby is one that exact mode is for.
func BenchmarkExact(b *testing.B) {
	if err := probe.Try(); err != nil {
		rubytest.Skip(b, "%v", err)
	}
	path, ruby := buildOwn(b), rubytest.One(b)
	for _, load := range exactLoads {
		b.Run(strings.Join(load, "-"), func(b *testing.B) {
			p := ruby.Start(b, exactScript, rubytest.Options{Args: load})
			p.Expect(b, "up")
			for range b.N {
				payExactly(b, path, p)
			}
		})
	}
	b.Run("rails", func(b *testing.B) {
		wrk := rubytest.Program(b, "wrk", "wrk")
		app := servertest.StartRails(b, 2, 5)
		pid := app.Workers[0]
		if out, err := exec.Command(path, "stat", strconv.Itoa(pid), "-d", "100ms", "--exact").CombinedOutput(); err != nil {
			rubytest.Skip(b, "%s", out)
		}
		serve(b, wrk, app, 10) // everything is loaded and cached
		for range b.N {
			var all exactTold
			burden(b, exactMeters(path, all.add), pid, func() served { return serve(b, wrk, app, 10) })
			all.report(b)
		}
	})
}

func roundsOf(b *testing.B, usual int) int {
	b.Helper()
	text := os.Getenv("DDTOP_BENCH_PAIRS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("DDTOP_BENCH_PAIRS=%s is no number of pairs", text)
	}
	return n
}

// exactTold is what exact mode said of itself: turns at the GVL and hits of probes a second, and its estimate of its cost in percent
// of the process's own CPU time.
type exactTold struct{ turns, hits, estimates []float64 }

func (e *exactTold) add(x *exact.Stat) {
	seconds := float64(x.DurationNS) / 1e9
	e.turns = append(e.turns, float64(x.Turns)/seconds)
	e.hits = append(e.hits, float64(x.Probes.Hits)/seconds)
	e.estimates = append(e.estimates, 100*float64(x.Probes.CostNS)/float64(x.Probes.CPUNS-x.Probes.CostNS))
}

func (e *exactTold) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(median(e.turns), "turns/s")
	b.ReportMetric(median(e.hits), "hits/s")
	b.ReportMetric(median(e.estimates), "estimate-%")
}

// payExactly measures a process without ddtop and with it in each way, in turns.
func payExactly(b *testing.B, path string, p *rubytest.Process) {
	b.Helper()
	var told exactTold
	all := exactMeters(path, told.add)
	ask := func() (d did) {
		p.Send(b, "")
		line := p.Line(b)
		if n, err := fmt.Sscan(line, &d.done, &d.cpu, &d.at); n != 3 {
			b.Fatalf("the program said %q: %v", line, err)
		}
		return d
	}
	own := make([][]float64, len(all))
	// By way, without ddtop the last: CPU time a piece of work, in µs, and pieces a second.
	cpu, speed := make([][]float64, len(all)+1), make([][]float64, len(all)+1)
	for round := range roundsOf(b, exactPairs) {
		for k := range cpu {
			i := k
			if round%2 == 1 { // what the machine does meanwhile is to hit all alike
				i = len(all) - k
			}
			var s *started
			if i < len(all) {
				s = all[i].start(b, p.PID, railsLimit)
			}
			time.Sleep(attachTime)
			var before, after time.Duration
			from, begin := monotonic(), ask()
			if s != nil {
				before, _ = cpuTime(s.cmd.Process.Pid)
			}
			time.Sleep(exactWindow)
			end := ask()
			if s != nil {
				after, _ = cpuTime(s.cmd.Process.Pid)
				until := monotonic()
				own[i] = append(own[i], 100*float64(after-before)/float64(until-from))
				s.end(b, from, until)
			}
			done := end.done - begin.done
			cpu[i] = append(cpu[i], (end.cpu-begin.cpu)/done/1e3)
			speed[i] = append(speed[i], done/(end.at-begin.at)*1e9)
		}
	}
	b.ReportMetric(0, "ns/op") // a run's length is chosen, not measured
	told.report(b)
	none := len(all)
	b.ReportMetric(median(cpu[none]), "none-µs")
	b.ReportMetric(median(speed[none]), "none-done/s")
	for i, m := range all {
		b.ReportMetric(median(own[i]), m.name+"-%")
		reportChange(b, m.name+"-more-cpu", cpu[i], cpu[none])
		reportChange(b, m.name+"-done", speed[i], speed[none])
	}
}

// reportChange reports the median of by how much values differ from others, pair by pair, in percent, and its interval.
func reportChange(b *testing.B, name string, values, others []float64) {
	b.Helper()
	var changes []float64
	for i, v := range values {
		changes = append(changes, 100*(v/others[i]-1))
	}
	low, high := medianInterval(changes)
	b.ReportMetric(median(changes), name+"-%")
	b.ReportMetric(low, name+"-low-%")
	b.ReportMetric(high, name+"-high-%")
}
