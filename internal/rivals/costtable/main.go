// Costtable reads the output of `go test -bench` in internal/rivals. It writes a table of ddtop's costs in Markdown:
//
//	go -C internal/rivals test -run '^$' -bench 'Cost|Rails|Rivals|FirstFrame' -timeout 0 . | go -C internal/rivals run ./costtable
//
// With the argument "exact" it writes the tables of what exact mode costs, from BenchmarkExact and BenchmarkExactRails.
// With the argument "quality" it writes the table of cost and quality by source, from BenchmarkQuality.
//
// It leaves out a row whose benchmarks did not run, and names the row on standard error.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	table := run
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "exact":
			table = runExact
		case "quality":
			table = runQuality
		}
	}
	if err := table(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "costtable:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out, missing io.Writer) error {
	m, err := parse(in)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| | aim | measured | before |\n| --- | --- | --- | --- |")
	for _, r := range rows {
		now, ok := r.cell(m, "ddtop")
		if !ok {
			fmt.Fprintf(missing, "costtable: nothing measured of %q\n", r.what)
			continue
		}
		before, ok := "", false
		if !r.others {
			before, ok = r.cell(m, "before")
		}
		if !ok {
			before = "–"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", r.what, r.aim, now, before)
	}
	return nil
}

// metrics are the values that benchmarks reported, by benchmark ("Cost/idle") and unit.
type metrics map[string]map[string]float64

// maxLine is the longest line that is read, in bytes; what a benchmark that failed says may be long.
const maxLine = 1 << 20

// result is a benchmark's line, with the number of CPUs at the end of its name.
var result = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// parse reads the output of go test -bench and takes no notice of other lines.
func parse(in io.Reader) (metrics, error) {
	m := make(metrics)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		found := result.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		units, fields := make(map[string]float64), strings.Fields(found[2])
		for i := 0; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			units[fields[i+1]] = v
		}
		m[found[1]] = units
	}
	return m, lines.Err()
}

// row is a line of the table.
type row struct {
	what, aim string
	// others: the row is of another program than ddtop.
	others bool
	// cell is what was measured of the version "ddtop" or "before"; false when it was not.
	cell func(m metrics, version string) (string, bool)
}

var rows = []row{
	{what: "Rails, full machine, default rates", aim: "≤ 5 %", cell: share("Rails/full", "")},
	{what: "… `--lock-rate 100`", cell: share("Rails/full", "-stacks-alone")},
	{what: "… rbspy at 100 Hz", others: true, cell: rbspy(share("Rails/full", ""))},
	{what: "… requests/s, default rates", aim: "within 2 %", cell: requests("Rails/full", "")},
	{what: "… requests/s, `--lock-rate 100`", cell: requests("Rails/full", "-stacks-alone")},
	{what: "… requests/s, rbspy", others: true, cell: rbspy(requests("Rails/full", ""))},
	{what: "… CPU time of a request, default rates", aim: "within 1 %", cell: requestCPU("Rails/full", "")},
	{what: "… `--source polling`", cell: requestCPU("Rails/full", "-polling")},
	{what: "… latency p50, p99", cell: latencies("Rails/full")},
	{what: "Rails, a free CPU, default rates", aim: "≤ 5 %", cell: share("Rails/free-cpu", "")},
	{what: "… rbspy at 100 Hz", others: true, cell: rbspy(share("Rails/free-cpu", ""))},
	{what: "… requests/s, default rates", aim: "within 2 %", cell: requests("Rails/free-cpu", "")},
	{what: "… requests/s, rbspy", others: true, cell: rbspy(requests("Rails/free-cpu", ""))},
	{what: "… latency p50, p99", cell: latencies("Rails/free-cpu")},
	{what: "10 threads", aim: "≤ 1.5 × a bare loop", cell: beside("10-threads", "", "10-threads", "bare-loop", "a bare loop's")},
	{what: "… reading requests, where there are none", aim: "≤ 10 % more", cell: forRequests("Requests/none")},
	{what: "… reading requests, 500 a second", cell: forRequests("Requests/500-a-second")},
	{what: "Rails, full machine, full rates, reading requests", cell: forRequests("Requests/rails")},
	{what: "100 threads", aim: "≤ 1.3 × that of 10", cell: beside("100-threads", "", "10-threads", "", "that of 10")},
	{what: "500 threads, with the screen (200x50)", aim: "≤ 2 × that of 10", cell: beside("500-threads", "-screen", "10-threads", "-screen", "that of 10")},
	{what: "10 threads, stacks alone at 100 Hz", aim: "≤ 1 %", cell: share("Cost/10-threads", "-stacks-alone")},
	{what: "idle, with the screen", aim: "≤ 0.3 %", cell: share("Cost/idle", "-screen")},
	{what: "CPU a stack of one thread, beside rbspy's (Ruby 3.1)", aim: "1/50", cell: besideRbspy("", "cpu-µs/stack")},
	{what: "… `--lock-rate 100`", cell: besideRbspy("-stacks-alone", "cpu-µs/stack")},
	{what: "… CPU a look at all 11 threads, beside rbspy's at one", cell: besideRbspy("", "cpu-µs/look")},
	{what: "first frame with a thread", aim: "what is known after 150 ms", cell: firstFrame},
}

// share is a share of a CPU.
func share(bench, variant string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		v, ok := m[bench][version+variant+"-%"]
		return number(v) + " %" + rates(m[bench], version+variant), ok
	}
}

// rates returns the rates at which ddtop read the GVL and stacks, which its budget may have lowered. It returns "" if
// they are not known.
func rates(of map[string]float64, name string) string {
	locks, ok := of[name+"-lock-Hz"]
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (GVL %.0f Hz, stacks %.0f Hz)", locks, of[name+"-stack-Hz"])
}

// rbspy is a cell about rbspy in place of ddtop.
func rbspy(cell func(metrics, string) (string, bool)) func(metrics, string) (string, bool) {
	return func(m metrics, _ string) (string, bool) { return cell(m, "rbspy") }
}

// requests is the change of requests a second, with its interval.
func requests(bench, variant string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		_, ok := m[bench][version+variant+"-fewer-requests-%"]
		return fewer(m[bench], version+variant), ok
	}
}

// requestCPU is the change of the application's CPU time for a request, with its interval.
func requestCPU(bench, variant string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		name := version + variant + "-more-cpu-ms"
		v, ok := m[bench][name+"-%"]
		return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", v, m[bench][name+"-low-%"], m[bench][name+"-high-%"]), ok
	}
}

// fewer is the change of requests a second, with its interval.
func fewer(of map[string]float64, name string) string {
	name += "-fewer-requests"
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", -of[name+"-%"], -of[name+"-high-%"], -of[name+"-low-%"])
}

func latencies(bench string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		of := m[bench]
		_, ok := of[version+"-p50-ms"]
		return fmt.Sprintf("%s and %s ms (without: %s and %s)", number(of[version+"-p50-ms"]), number(of[version+"-p99-ms"]),
			number(of["none-p50-ms"]), number(of["none-p99-ms"])), ok
	}
}

// beside is a share of a CPU as a multiple of another one, which is a variant of the same version or "bare-loop".
func beside(bench, variant, otherBench, other, called string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		unit := version + other + "-%"
		if other == "bare-loop" {
			unit = other + "-%"
		}
		v, ok := m["Cost/"+bench][version+variant+"-%"]
		base, okBase := m["Cost/"+otherBench][unit]
		return fmt.Sprintf("%s %%%s, %.1f × %s (%s %%)", number(v), rates(m["Cost/"+bench], version+variant), v/base, called, number(base)), ok && okBase
	}
}

// forRequests returns by how much reading requests makes ddtop's cost larger at full rates, and its effect on the rates
// of a budget.
func forRequests(bench string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		of := m[bench]
		more, ok := of["more-%"]
		return fmt.Sprintf("%+.0f %% (%+.0f to %+.0f; %s and %s %%); with a budget%s, without%s", more, of["more-low-%"], of["more-high-%"],
			number(of["with-%"]), number(of["without-%"]), rates(of, "budget"), rates(of, "budget-without")), ok && version == "ddtop"
	}
}

// besideRbspy is a figure as a fraction of rbspy's.
func besideRbspy(variant, unit string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		const bench = "Rivals/debian-3.1/"
		own, ok := m[bench+version+variant][unit]
		rival, okRival := m[bench+"rbspy"][unit]
		stacks := m[bench+version+variant]["stacks/s"]
		return fmt.Sprintf("1/%s (%s µs, rbspy %s µs; %.0f stacks/s)", number(rival/own), number(own), number(rival), stacks), ok && okRival
	}
}

func firstFrame(m metrics, version string) (string, bool) {
	v, ok := m["FirstFrame"][version+"-ms"]
	return fmt.Sprintf("%.0f ms, at most %.0f", v, m["FirstFrame"][version+"-longest-ms"]), ok
}

// number has two figures that count, or all before the point.
func number(v float64) string {
	switch {
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
