package main

import (
	"fmt"
	"io"
)

// exactRows are the loads of BenchmarkExact.
var exactRows = []struct{ name, what string }{
	{"idle", "idle: 10 threads sleep a second at a time (CPU a second)"},
	{"compute", "4 threads compute"},
	{"allocate", "4 threads make objects"},
	{"10-threads", "10 threads: 2 compute, 8 sleep 50 ms at a time"},
	{"100-threads", "100 threads: 98 sleep 50 ms at a time"},
	{"500-threads", "500 threads: 498 sleep 20 ms at a time"},
	{"turns-500", "4 threads write a byte, 500 times a second"},
	{"turns-5000", "… 5,000 times"},
	{"turns-15000", "… 15,000 times"},
	{"turns-50000", "… 50,000 times"},
	{"turns-150000", "… 150,000 times, or as often as they can"},
}

// railsRows are the loads of BenchmarkExactRails. railsWays are the modes of ddtop, each of which is measured under
// every load.
var (
	railsRows = []struct{ name, what string }{{"full", "full machine"}, {"free-cpu", "a free CPU"}}
	railsWays = []struct{ name, what string }{
		{"none", "none"}, {"1-kHz", "1 kHz"}, {"exact", "exact, no budget"}, {"exact-usual", "exact, as it comes"},
	}
)

// runExact writes the tables of what exact mode costs, compared with sampling at 1 kHz and with no ddtop.
func runExact(in io.Reader, out, missing io.Writer) error {
	m, err := parse(in)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| load | turns/s | hits/s | ddtop's CPU: 1 kHz | exact | … beside 1 kHz | the process's CPU for a piece of work: none | 1 kHz | exact | ddtop's estimate | work done: 1 kHz | exact |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range exactRows {
		of, ok := m["Exact/"+r.name]
		if !ok {
			fmt.Fprintf(missing, "costtable: nothing measured of %q\n", r.what)
			continue
		}
		done := change(of, "1-kHz-done") + " | " + change(of, "exact-done")
		if r.name == "idle" { // the idle program does no work: only time passes
			done = "– | –"
		}
		fmt.Fprintf(out, "| %s | %s | %s %%%s | %s %% | %s | %s µs | %s | %s | %+.1f %% | %s |\n", r.what, told(of, "exact"),
			number(of["1-kHz-%"]), gvlRate(of, "1-kHz"), number(of["exact-%"]), change(of, "exact-beside-1-kHz"), number(of["none-µs"]),
			change(of, "1-kHz-more-cpu"), change(of, "exact-more-cpu"), of["exact-estimate-%"], done)
	}
	fmt.Fprintln(out, "\n| Rails | ddtop | requests/s | latency p50 | p99 | the worker's CPU a request | ddtop's estimate | ddtop's CPU | beside 1 kHz | turns/s | hits/s |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range railsRows {
		of, ok := m["ExactRails/"+r.name]
		if !ok {
			fmt.Fprintf(missing, "costtable: nothing measured of Rails, %s\n", r.what)
			continue
		}
		for i, way := range railsWays {
			load := r.what
			if i > 0 {
				load = "…"
			}
			fmt.Fprintf(out, "| %s | %s |%s\n", load, way.what+endedItself(of, way.name), railsCells(of, way.name))
		}
	}
	return nil
}

// railsCells returns the cells of one row of the table for Rails. way is ddtop's mode (railsWays). A cell has a figure
// with ddtop, and by how much it differs from the figure without ddtop.
func railsCells(of map[string]float64, way string) (cells string) {
	for _, v := range []struct{ name, unit string }{{"requests/s", ""}, {"p50-ms", " ms"}, {"p99-ms", " ms"}, {"cpu-ms", " ms"}} {
		cells += " " + number(of[way+"-"+v.name]) + v.unit
		if way != "none" {
			cells += ", " + change(of, way+"-more-"+v.name)
		}
		cells += " |"
	}
	switch way {
	case "none":
		return cells + " – | – | – | – | – |"
	case "1-kHz":
		return cells + fmt.Sprintf(" – | %s %%%s | – | – | – |", number(of["1-kHz-%"]), gvlRate(of, way))
	}
	return cells + fmt.Sprintf(" %+.1f %% | %s %% | %s | %s |", of[way+"-estimate-%"], number(of[way+"-%"]), change(of, way+"-beside-1-kHz"), told(of, way))
}

// told returns two cells of the table: holds of the GVL and hits of probes, both per second, as exact mode reports
// them. They are empty if exact mode was not on all the time. If records were lost, told adds their number.
func told(of map[string]float64, way string) string {
	cells := "– | –"
	if turns, ok := of[way+"-turns/s"]; ok {
		cells = fmt.Sprintf("%.0f | %.0f", turns, of[way+"-hits/s"])
	}
	if lost := of[way+"-lost"]; lost > 0 {
		cells += fmt.Sprintf(" (%.0f records lost)", lost)
	}
	return cells
}

// gvlRate returns how often the GVL was read. It is lower than wanted if threads had no CPU or mostly sleep.
func gvlRate(of map[string]float64, way string) string {
	return fmt.Sprintf(" (GVL %.0f Hz)", of[way+"-lock-Hz"])
}

// change returns a difference in percent, and the confidence interval of this difference.
func change(of map[string]float64, name string) string {
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", of[name+"-%"], of[name+"-low-%"], of[name+"-high-%"])
}

// endedItself returns how often exact mode ended by itself, and for which share of the measured time it was on. It
// returns "" if exact mode never ended by itself.
func endedItself(of map[string]float64, way string) string {
	if of[way+"-ended"] == 0 {
		return ""
	}
	return fmt.Sprintf(" (ended itself %.0f times, on for %s %% of the time)", of[way+"-ended"], number(of[way+"-on-%"]))
}
