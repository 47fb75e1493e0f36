package main

import (
	"fmt"
	"io"
)

// exactRows are the loads of BenchmarkExact.
var exactRows = []struct{ name, what string }{
	{"compute", "4 threads compute"},
	{"allocate", "4 threads make objects"},
	{"sleepers", "2 threads compute, 98 sleep 50 ms at a time"},
	{"turns-500", "4 threads write a byte, 500 times a second"},
	{"turns-5000", "… 5,000 times"},
	{"turns-15000", "… 15,000 times"},
	{"turns-50000", "… 50,000 times"},
	{"turns-150000", "… 150,000 times, or as often as they can"},
}

// runExact writes the table of what exact mode costs, beside sampling at 1 kHz and beside no ddtop.
func runExact(in io.Reader, out, missing io.Writer) error {
	m, err := parse(in)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| load | turns/s | hits/s | ddtop's CPU: 1 kHz, exact | the process's CPU for its work: 1 kHz | exact | ddtop's estimate | work done: 1 kHz | exact |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range exactRows {
		of, ok := m["Exact/"+r.name]
		if !ok {
			fmt.Fprintf(missing, "costtable: nothing measured of %q\n", r.what)
			continue
		}
		change := func(name string) string {
			return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", of[name+"-%"], of[name+"-low-%"], of[name+"-high-%"])
		}
		fmt.Fprintf(out, "| %s | %.0f | %.0f | %s %%, %s %% | %s | %s | %+.1f %% | %s | %s |\n", r.what, of["turns/s"], of["hits/s"],
			number(of["1-kHz-%"]), number(of["exact-%"]), change("1-kHz-more-cpu"), change("exact-more-cpu"), of["estimate-%"],
			change("1-kHz-done"), change("exact-done"))
	}
	if of, ok := m["Exact/rails"]; ok {
		fmt.Fprintf(out, "| Rails, full machine | %.0f | %.0f | %s %%, %s %% | – | – | %+.1f %% | %s | %s |\n", of["turns/s"], of["hits/s"],
			number(of["1-kHz-%"]), number(of["exact-%"]), of["estimate-%"], fewer(of, "1-kHz"), fewer(of, "exact"))
	} else {
		fmt.Fprintln(missing, "costtable: nothing measured of Rails")
	}
	return nil
}

// fewer is the change of requests a second, with its interval.
func fewer(of map[string]float64, name string) string {
	name += "-fewer-requests"
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", -of[name+"-%"], -of[name+"-high-%"], -of[name+"-low-%"])
}
