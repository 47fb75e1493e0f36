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
	{"known-calls", "a thread computes"},
}

// runQuality writes the table of cost and quality by source, from what BenchmarkQuality reported. A figure that was not
// measured is –.
func runQuality(in io.Reader, out, missing io.Writer) error {
	m, err := parse(in)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| load | source | CPU: recording, with the screen, in the kernel | points off exact: mean, worst thread | waits ≥ 1 ms found "+
		"| requests ≥ 20 ms, shorter ones seen | lengths off | told: states, waits, stacks, requests | samples, stacks a second | impossible stacks |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, l := range qualityLoads {
		of := m["Quality/"+l.name]
		load := l.what
		for _, source := range qualitySources(of) {
			// cell has the figures that were measured, and – for the others. It is – if none was.
			cell := func(unit string, names ...string) string {
				out, any := "", false
				for i, name := range names {
					text := "–"
					if v, ok := of[source+name]; ok {
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
			impossible := "–"
			if n, ok := of[source+"-stacks"]; ok {
				impossible = fmt.Sprintf("%.0f of %.0f", of[source+"-impossible"], n)
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", load, source, cell(" %", "-%", "-screen-%", "-kernel-%"),
				cell("", "-off-points", "-worst-points"), cell(" %", "-waits-%"), cell(" %", "-long-requests-%", "-short-requests-%"),
				cell(" %", "-length-off-%"), cell(" %", "-told-states-%", "-told-waits-%", "-told-stacks-%", "-told-requests-%"),
				cell("", "-lock-Hz", "-stack-Hz"), impossible)
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
		if source, ok := strings.CutSuffix(unit, "-screen-%"); ok {
			out = append(out, source)
		}
	}
	slices.Sort(out)
	return out
}
