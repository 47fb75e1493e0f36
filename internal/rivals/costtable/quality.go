package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// qualityLoads are the loads of BenchmarkQuality, in the order of the table.
var qualityLoads = []struct{ name, what string }{
	{"rails-full", "Rails, full machine"},
	{"rails-half", "Rails, half full"},
	{"idle", "idle"},
	{"500-threads", "500 threads"},
	{"50-workers", "50 workers"},
	{"many-switches", "many thread switches"},
}

// runQuality writes the table of cost and quality by source, from what BenchmarkQuality reported. A figure that was not measured is –.
func runQuality(in io.Reader, out, missing io.Writer) error {
	m, err := parse(in)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| load | source | ddtop's CPU | points off exact: mean, worst thread | shares told | requests seen of the log | samples, stacks a second |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- |")
	for _, l := range qualityLoads {
		of := m["Quality/"+l.name]
		load := l.what
		for _, source := range qualitySources(of) {
			cell := func(format string, names ...string) string {
				var values []any
				for _, name := range names {
					v, ok := of[source+name]
					if !ok {
						return "–"
					}
					values = append(values, number(v))
				}
				return fmt.Sprintf(format, values...)
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n", load, source, cell("%s %%", "-%"), cell("%s, %s", "-off-points", "-worst-points"),
				cell("%s %%", "-told-%"), cell("%s %%", "-requests-%"), cell("%s, %s", "-lock-Hz", "-stack-Hz"))
			load = "…"
		}
		if len(of) == 0 {
			fmt.Fprintf(missing, "costtable: nothing measured of %q\n", l.what)
		}
	}
	return nil
}

// qualitySources are the sources that a load was measured with, sorted.
func qualitySources(of map[string]float64) (out []string) {
	for unit := range of {
		if source, ok := strings.CutSuffix(unit, "-told-%"); ok {
			out = append(out, source)
		}
	}
	slices.Sort(out)
	return out
}
