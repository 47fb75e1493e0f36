package main

import (
	"fmt"
	"io"
	"strings"
)

// load is a program on which BenchmarkQuality measures ddtop. name is its name in the benchmark, and what is its
// heading in the table. rails is its name in BenchmarkRails, or "" if that benchmark does not have it. perRequest is
// true if BenchmarkPerRequest measures it, too.
type load struct {
	name, what, rails string
	perRequest        bool
}

// loads has all loads, in the order of the tables.
var loads = []load{
	{name: "rails-full", what: "Rails, full machine", rails: "Rails/full"},
	{name: "rails-half", what: "Rails, half full", rails: "Rails/free-cpu", perRequest: true},
	{name: "idle", what: "An idle process of ten threads"},
	{name: "500-threads", what: "500 threads"},
	{name: "50-workers", what: "50 workers"},
	{name: "many-switches", what: "Many thread switches"},
	{name: "known-calls", what: "One thread computes"},
}

// profilers are the columns of the tables. name is the profiler's name in BenchmarkQuality. The field rails is its name
// in BenchmarkRails, or "" if BenchmarkRails does not measure the profiler.
var profilers = []struct{ name, rails string }{
	{"none", "none"}, {"rbspy", "rbspy"}, {"switches", "ddtop"}, {"moved", ""}, {"polling", "ddtop-polling"},
}

// figures are the lines of a table. what is the line's heading. names are the figures of BenchmarkQuality that the line
// shows, without the profiler's name before them.
var figures = []struct {
	what, unit string
	names      []string
}{
	{"CPU time while recording", " %", []string{"-%"}},
	{"… with the screen", " %", []string{"-screen-%"}},
	{"… in the kernel, for BPF programs", " %", []string{"-kernel-%"}},
	{"points off: mean, worst thread", "", []string{"-off-points", "-worst-points"}},
	{"waits ≥ 1 ms found", " %", []string{"-waits-%"}},
	{"requests ≥ 20 ms, shorter ones seen", " %", []string{"-long-requests-%", "-short-requests-%"}},
	{"lengths of requests off", " %", []string{"-length-off-%"}},
	{"figures shown: states, waits, stacks, requests", " %", []string{"-told-states-%", "-told-waits-%", "-told-stacks-%", "-told-requests-%"}},
	{"samples, stacks per second", "", []string{"-lock-Hz", "-stack-Hz"}},
	{"impossible stacks, of how many", "", []string{"-impossible", "-stacks"}},
}

// runQuality writes a table of cost and quality for each load, from the figures of BenchmarkQuality, BenchmarkRails and
// BenchmarkPerRequest. In place of a figure that was not measured, the table has "–".
func runQuality(in io.Reader, out, missing io.Writer) error {
	m, err := parse(in)
	if err != nil {
		return err
	}
	for _, l := range loads {
		of := m["Quality/"+l.name]
		if len(of) == 0 {
			fmt.Fprintf(missing, "costtable: nothing measured of %q\n", l.what)
			continue
		}
		fmt.Fprintf(out, "### %s\n\n|", l.what)
		for _, p := range profilers {
			fmt.Fprintf(out, " | %s", p.name)
		}
		fmt.Fprintf(out, " |\n| ---%s |\n", strings.Repeat(" | ---", len(profilers)))
		for _, f := range figures {
			line(out, f.what, func(i int) string { return cell(of, profilers[i].name, f.unit, f.names) })
		}
		line(out, "requests per second", func(i int) string { return cell(m[l.rails], profilers[i].rails, "", []string{"-requests/s"}) })
		line(out, "latency p50, p99", func(i int) string { return cell(m[l.rails], profilers[i].rails, " ms", []string{"-p50-ms", "-p99-ms"}) })
		line(out, "CPU time of a request", func(i int) string { return cell(m[l.rails], profilers[i].rails, " ms", []string{"-cpu-ms"}) })
		if l.perRequest {
			line(out, "… more than without, of pairs", func(i int) string { return inPairs(m["PerRequest"], i, "more-cpu") })
			line(out, "fewer requests, of the same pairs", func(i int) string { return inPairs(m["PerRequest"], i, "fewer-requests") })
		}
		fmt.Fprintln(out)
	}
	return nil
}

// line writes a line of a table, unless all of its cells are "–" (not measured).
func line(out io.Writer, what string, of func(profiler int) string) {
	any, text := false, "| "+what
	for i := range profilers {
		c := of(i)
		text += " | " + c
		any = any || c != "–"
	}
	if any {
		fmt.Fprintln(out, text+" |")
	}
}

// cell returns the figures of a cell, separated by commas. In place of a figure that was not measured, the cell has
// "–". If no figure was measured, the whole cell is "–".
func cell(of map[string]float64, profiler, unit string, names []string) string {
	out, any := "", false
	for i, name := range names {
		text := "–"
		if v, ok := of[profiler+name]; ok && profiler != "" {
			text, any = number(v)+unit, true
		}
		if i > 0 {
			out += ", "
		}
		out += text
	}
	if !any {
		return "–"
	}
	return out
}

// inPairs returns the difference that ddtop makes, its interval, and the number of pairs of measurements with and
// without ddtop. BenchmarkPerRequest measures only ddtop at its defaults. So inPairs returns "–" for the columns of
// other profilers.
func inPairs(of map[string]float64, profiler int, name string) string {
	v, ok := of[name+"-%"]
	if !ok || profilers[profiler].rails != "ddtop" {
		return "–"
	}
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f, %.0f pairs)", v, of[name+"-low-%"], of[name+"-high-%"], of["pairs"])
}
