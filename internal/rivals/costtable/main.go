// Costtable reads the output of `go test -bench` in internal/rivals. It writes a table of ddtop's costs in Markdown:
//
//	go -C internal/rivals test -run '^$' -timeout 0 \
//		-bench 'Cost|Requests|Rivals|FirstFrame|Idle|Fleet' . |
//		go -C internal/rivals run ./costtable
//
// With the argument "exact" it writes the tables of what exact mode costs, from BenchmarkExact and BenchmarkExactRails.
// With the argument "quality" it writes a table of cost and quality for each load, from BenchmarkQuality,
// BenchmarkRails and BenchmarkPerRequest.
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
		before, ok := r.cell(m, "before")
		if !ok {
			before = "–"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", r.what, r.aim, now, before)
	}
	return nil
}

// metrics are the values that benchmarks reported. The keys are the benchmark ("Cost/idle") and the unit.
type metrics map[string]map[string]float64

// maxLine limits the length of a line, in bytes. Failed benchmarks can print long lines.
const maxLine = 1 << 20

// result matches the line of one benchmark in the output of go test. The name may end with the number of CPUs, as in
// BenchmarkCost/idle-2.
var result = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// parse reads the output of go test -bench and ignores other lines.
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
	// cell returns the figure for a version of ddtop: "ddtop" is the present one and "before" an earlier one. It
	// returns false if this version was not measured.
	cell func(m metrics, version string) (string, bool)
}

var rows = []row{
	{what: "10 threads", aim: "≤ 1.5 × a bare loop", cell: beside("10-threads", "", "10-threads", "bare-loop", "a bare loop's")},
	{what: "… reading requests of a program without requests", aim: "≤ 10 % more", cell: forRequests("Requests/none")},
	{what: "… reading requests, 500 a second", cell: forRequests("Requests/500-a-second")},
	{what: "Rails, full machine, full rates, reading requests", cell: forRequests("Requests/rails")},
	{what: "100 threads", aim: "≤ 1.3 × 10 threads", cell: beside("100-threads", "", "10-threads", "", "10 threads")},
	{what: "500 threads, with the screen (200x50)", aim: "≤ 2 × 10 threads", cell: beside("500-threads", "-screen", "10-threads", "-screen", "10 threads")},
	{what: "10 threads, stacks alone at 100 Hz", aim: "≤ 1 %", cell: share("Cost/10-threads", "-stacks-alone")},
	{what: "idle for half a minute, with the screen", aim: "≤ 0.2 %", cell: idle("switches")},
	{what: "… `--source moved`", cell: idle("moved")},
	{what: "… `--source polling`", cell: idle("polling")},
	{what: "50 workers, `push --children`", aim: "≤ 2 %, 2 MB for each", cell: fleet},
	{what: "CPU time of a stack of one thread, beside rbspy's (Ruby 3.1)", aim: "1/50",
		cell: besideRbspy("", "cpu-µs/stack")},
	{what: "… `--lock-rate 100`", cell: besideRbspy("-stacks-alone", "cpu-µs/stack")},
	{what: "… CPU time of a sample of all 11 threads, beside rbspy's of one", cell: besideRbspy("", "cpu-µs/look")},
	{what: "first picture with a thread, 10 threads", aim: "≤ 74 ms", cell: firstFrame("10-threads")},
	{what: "… a worker of Rails", aim: "≤ 74 ms", cell: firstFrame("rails")},
}

// share returns a function that makes a cell of the table. The cell shows how much of a CPU ddtop took in a benchmark,
// in percent.
func share(bench, variant string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		v, ok := m[bench][version+variant+"-%"]
		return number(v) + " %" + rates(m[bench], version+variant), ok
	}
}

// rates returns text with the rates at which ddtop read the GVL and stacks. ddtop's budget of CPU time may have lowered
// them. It returns "" if they are not known.
func rates(of map[string]float64, name string) string {
	locks, ok := of[name+"-lock-Hz"]
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (GVL %.0f Hz, stacks %.0f Hz)", locks, of[name+"-stack-Hz"])
}

// beside returns a function that makes a cell of the table: "2.0 %, 1.5 × CALLED (1.3 %)". The first figure is ddtop's
// share of a CPU in the benchmark bench. The last figure is the share of a CPU to compare with, from otherBench. other
// is what otherBench measured: a variant of ddtop, or "bare-loop". called is the name of other in the table.
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

// forRequests returns a function that makes a cell about the cost of reading requests. At full rates, the cell says by
// how much reading requests raises ddtop's cost. With a limited cost, it says how reading requests changes the rates.
func forRequests(bench string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		of := m[bench]
		more, ok := of["more-%"]
		return fmt.Sprintf("%+.0f %% (%+.0f to %+.0f; %s and %s %%); with a budget%s, without%s", more, of["more-low-%"], of["more-high-%"],
			number(of["with-%"]), number(of["without-%"]), rates(of, "budget"), rates(of, "budget-without")), ok && version == "ddtop"
	}
}

// besideRbspy returns a function that makes a cell. The cell shows one of ddtop's figures as a fraction of rbspy's
// figure.
func besideRbspy(variant, unit string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		const bench = "Rivals/debian-3.1/"
		own, ok := m[bench+version+variant][unit]
		rival, okRival := m[bench+"rbspy"][unit]
		stacks := m[bench+version+variant]["stacks/s"]
		return fmt.Sprintf("1/%s (%s µs, rbspy %s µs; %.0f stacks/s)", number(rival/own), number(own), number(rival), stacks), ok && okRival
	}
}

func firstFrame(program string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		of := m["FirstFrame/"+program]
		v, ok := of[version+"-ms"]
		return fmt.Sprintf("%.0f ms, at most %.0f", v, of[version+"-longest-ms"]), ok
	}
}

// idle returns a function that makes a cell with the cost of ddtop's screen while the process is idle for a long time.
func idle(source string) func(metrics, string) (string, bool) {
	return func(m metrics, version string) (string, bool) {
		v, ok := m["Idle"][source+"-%"]
		return fmt.Sprintf("%s %%, %s MB", number(v), number(m["Idle"][source+"-MB"])), ok && version == "ddtop"
	}
}

// fleet returns a cell with the cost of `ddtop push` for fifty worker processes.
func fleet(m metrics, version string) (string, bool) {
	v, ok := m["Fleet"][version+"-%"]
	return fmt.Sprintf("%s %%, %s MB", number(v), number(m["Fleet"][version+"-MB"])), ok
}

// number writes a figure with two significant digits. If there are more than two digits before the point, it writes all
// digits before the point.
func number(v float64) string {
	switch {
	case v >= 10 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
