package rivals

import (
	_ "embed" // embeds the program
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	contract "github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// exactScript is a program of one kind of work. It prints the work that it has done, its CPU time and the time.
//
//go:embed testdata/exact.rb
var exactScript string

// exactKinds are the arguments of exactScript.
var exactKinds = [][]string{
	{"compute"}, {"allocate"}, {"turns", "500"}, {"turns", "5000"}, {"turns", "15000"}, {"turns", "50000"}, {"turns", "150000"},
}

// exactLoad is a program on which exact mode is measured.
type exactLoad struct {
	name, script string
	args         []string
}

// exactLoads returns the programs for measuring exact mode: the kinds of work in exactScript, and the programs of
// BenchmarkCost.
func exactLoads() (all []exactLoad) {
	for _, args := range exactKinds {
		all = append(all, exactLoad{strings.Join(args, "-"), exactScript, args})
	}
	for _, p := range costPrograms {
		all = append(all, exactLoad{p.name, p.script, nil})
	}
	return all
}

const (
	// exactPairs is the number of measurements of a process with exact mode, with sampling, and without ddtop.
	// DDTOP_BENCH_PAIRS sets another number.
	exactPairs = 20
	// exactWindow is the length of each measurement.
	exactWindow = time.Second
	// exactAttach is how long a benchmark waits for ddtop to begin and to insert its probes. Each measurement checks
	// that this was enough.
	exactAttach = time.Second
	// exactRest is a pause before a measurement without ddtop. It is for a process that works all the time.
	exactRest = 200 * time.Millisecond
)

// exactMeter returns a meter that measures `ddtop stat --exact` with the given additional arguments.
func exactMeter(path, name string, args ...string) meter {
	m := stat(path, name, append([]string{"--exact"}, args...)...)
	m.said = func(out []byte, file string) (sampled, error) {
		said, err := saidByStat(out, file)
		if err != nil {
			return said, err
		}
		var s struct{ Exact *contract.StatExact }
		if err := json.Unmarshal(out, &s); err != nil || s.Exact == nil || s.Exact.Wrong {
			return said, fmt.Errorf("what exact mode says is not to be used: %+v, %w", s.Exact, err)
		}
		said.exact = s.Exact
		return said, nil
	}
	return m
}

// throughout returns a meter that fails unless exact mode was on during the whole measurement. The first and the last
// sample must lie within the time in which the probes were set.
func (m meter) throughout() meter {
	saidBy := m.said
	m.said = func(out []byte, file string) (sampled, error) {
		said, err := saidBy(out, file)
		if err == nil && said.exact.Ended != "" {
			err = fmt.Errorf("exact mode ended by itself: %s", said.exact.Ended)
		}
		if err == nil && said.exact.Probes.Hits == 0 {
			err = errors.New("no thread came past a probe")
		}
		if err != nil {
			return said, err
		}
		said.from, said.until = max(said.from, time.Duration(said.exact.StartNS)), min(said.until, time.Duration(said.exact.EndNS))
		return said, nil
	}
	return m
}

// fullRates returns two meters: sampling at 1 kHz, and exact mode. In both, ddtop's own cost has no limit. In exact
// mode, the cost to the process has no limit either. Exact mode must be on all the time.
func fullRates(path string) []meter {
	return []meter{
		stat(path, "1-kHz", "--overhead", "off"),
		exactMeter(path, "exact", "--overhead", "off", "--exact-cost", "off").throughout(),
	}
}

// reportExact reports what exact mode says about itself:
//
//   - holds of the GVL, hits of probes and records, per second
//   - two estimates of exact mode's cost: in percent of the process's own CPU time, and per hit
//   - the number of lost records, and how often exact mode ended by itself
//   - the share of the measured time in which exact mode was on
//
// onlyThen is true if the process works only during the measurement. In this case, rates are per second of the
// measurement. Otherwise they are per second of exact mode.
func reportExact(b *testing.B, name string, own []ownCost, onlyThen bool) {
	b.Helper()
	var turns, hits, records, estimates, hitNS, on []float64
	lost, ended := 0.0, 0.0
	for _, c := range own {
		x := c.said.exact
		begin, end := max(c.from, time.Duration(x.StartNS)), min(c.until, time.Duration(x.EndNS))
		on = append(on, 100*max(0, float64(end-begin)/float64(c.until-c.from)))
		seconds := float64(x.DurationNS) / 1e9
		if onlyThen {
			seconds = (end - begin).Seconds()
		}
		turns, hits = append(turns, float64(x.Turns)/seconds), append(hits, float64(x.Probes.Hits)/seconds)
		records = append(records, float64(x.Probes.Records)/seconds)
		estimates = append(estimates, 100*float64(x.Probes.CostNS)/float64(x.Probes.CPUNS-x.Probes.CostNS))
		hitNS = append(hitNS, float64(x.Probes.HitNS))
		lost += float64(x.Probes.Lost)
		if x.Ended != "" {
			ended++
		}
	}
	if ended == 0 { // if exact mode ended by itself, the number of hits during the work is unknown
		b.ReportMetric(median(turns), name+"-turns/s")
		b.ReportMetric(median(hits), name+"-hits/s")
		b.ReportMetric(median(records), name+"-records/s")
	}
	b.ReportMetric(median(estimates), name+"-estimate-%")
	b.ReportMetric(median(hitNS), name+"-hit-ns")
	b.ReportMetric(lost, name+"-lost")
	b.ReportMetric(ended, name+"-ended")
	b.ReportMetric(median(on), name+"-on-%")
}

// BenchmarkExact measures the cost of exact mode, of sampling at 1 kHz and of no profiler, in turns. It reports
// ddtop's own CPU time. It also reports how much less work the process does, and how much more CPU time a piece of its
// work takes.
func BenchmarkExact(b *testing.B) {
	if err := probe.Try(false); err != nil {
		rubytest.Skip(b, "%v", err)
	}
	path, ruby := buildOwn(b), rubytest.One(b)
	for _, load := range exactLoads() {
		b.Run(load.name, func(b *testing.B) {
			p := ruby.Start(b, load.script, rubytest.Options{Args: load.args})
			p.Expect(b, "up")
			ask := asks(b, p)
			if load.name == idleProgram {
				ask = seconds(b, p.PID)
			}
			for range b.N {
				payExactly(b, path, p.PID, ask)
			}
		})
	}
}

// pairsWanted returns DDTOP_BENCH_PAIRS, or the usual number if it is not set.
func pairsWanted(b *testing.B, usual int) int {
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

// did is what a process has done since its start: the number of pieces of work, and its CPU time in ns. at is when the
// process reported this, in ns.
type did struct{ done, cpu, at float64 }

// asks returns a function that asks a program how much work it has done so far.
func asks(b *testing.B, p *rubytest.Process) func() did {
	return func() (d did) {
		p.Send(b, "")
		line := p.Line(b)
		if n, err := fmt.Sscan(line, &d.done, &d.cpu, &d.at); n != 3 {
			b.Fatalf("the program said %q: %v", line, err)
		}
		return d
	}
}

// seconds returns a function that measures the work of an idle process. Each second counts as one piece of work. The
// function does not ask the process, because an answer would be more work than the process does otherwise.
func seconds(b *testing.B, pid int) func() did {
	return func() did {
		at := float64(monotonic())
		return did{at / 1e9, float64(processCPU(b, pid)), at}
	}
}

// processCPU returns the CPU time of a process. It includes the CPU time of threads that have ended.
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	var t unix.Timespec
	// The first argument is the number of another process's CPU clock, as clock_getcpuclockid(3) makes it. The 2 in it
	// selects the scheduler's clock.
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		b.Fatalf("the CPU time of process %d: %v", pid, err)
	}
	return time.Duration(t.Nano())
}

// payExactly measures what a process pays: it measures the process without ddtop and with each of the meters, in turns.
func payExactly(b *testing.B, path string, pid int, ask func() did) {
	b.Helper()
	all := fullRates(path)
	window := func() did {
		begin := ask()
		time.Sleep(exactWindow)
		end := ask()
		return did{end.done - begin.done, end.cpu - begin.cpu, end.at - begin.at}
	}
	windows, own := inRounds(b, rounds{pairsWanted(b, exactPairs), exactAttach, exactRest}, all, pid, window)
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	reportExact(b, "exact", own[1], false)
	// cpu has the CPU time that a piece of work takes, in µs, and speed has the pieces of work per second. The last row
	// of each is for the measurements without ddtop.
	cpu, speed := make([][]float64, len(windows)), make([][]float64, len(windows))
	for i, of := range windows {
		for _, d := range of {
			cpu[i] = append(cpu[i], d.cpu/d.done/1e3)
			speed[i] = append(speed[i], d.done/d.at*1e9)
		}
	}
	none := len(all)
	b.ReportMetric(median(cpu[none]), "none-µs")
	b.ReportMetric(median(speed[none]), "none-done/s")
	for i, m := range all {
		reportCosts(b, m.name, own[i])
		reportChange(b, m.name+"-more-cpu", cpu[i], cpu[none])
		reportChange(b, m.name+"-done", speed[i], speed[none])
	}
	reportChange(b, "exact-beside-1-kHz", shares(own[1]), shares(own[0]))
}

// shares returns the share of a CPU from each element of costs.
func shares(costs []ownCost) (all []float64) {
	for _, c := range costs {
		all = append(all, c.share)
	}
	return all
}

// reportChange compares each element of the list values with the same element of the list others. It reports the median
// difference in percent, and the 95 % interval of this median.
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
