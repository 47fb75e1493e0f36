package main

import (
	"bytes"
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkCost/10-threads-2         	       1	         2.000 bare-loop-%	         3.0 ddtop-%	       913.0 ddtop-lock-Hz 99.6 ddtop-stack-Hz	         5.0 ddtop-screen-%	  0.75 ddtop-stacks-alone-%	 9.0 before-%
BenchmarkCost/500-threads-2        	       1	         7.500 ddtop-screen-%
    bench_linux_test.go:1: a note
BenchmarkRails/full-2  1  12.4 ddtop-%  1.04 ddtop-fewer-requests-%  -0.5 ddtop-fewer-requests-low-%  2.06 ddtop-fewer-requests-high-%
BenchmarkRivals/debian-3.1/rbspy-2 	       1	 0 ns/op	 500 cpu-µs/stack
BenchmarkRivals/debian-3.1/ddtop-2 	       1	 0 ns/op	 10 cpu-µs/stack 1100 stacks/s
BenchmarkRequests/none-2  1  2.7 budget-%  349 budget-lock-Hz  99.8 budget-stack-Hz  2.3 budget-without-%  295 budget-without-lock-Hz  97.8 budget-without-stack-Hz  5.884 more-%  7.654 more-high-%  3.071 more-low-%  5.222 with-%  4.889 without-%
BenchmarkFirstFrame-2              	       1	       381.8 ddtop-longest-ms	       332.7 ddtop-ms
PASS
`

func TestTable(t *testing.T) {
	var out, missing bytes.Buffer
	if err := run(strings.NewReader(output), &out, &missing); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 10 threads | ≤ 1.5 × a bare loop | 3.0 % (GVL 913 Hz, stacks 100 Hz), 1.5 × a bare loop's (2.0 %) | 9.0 %, 4.5 × a bare loop's (2.0 %) |\n",
		"| 500 threads, with the screen (200x50) | ≤ 2 × that of 10 | 7.5 %, 1.5 × that of 10 (5.0 %) | – |\n",
		"| 10 threads, stacks alone at 100 Hz | ≤ 1 % | 0.75 % | – |\n",
		"| Rails, full machine, default rates | ≤ 5 % | 12 % | – |\n",
		"| … requests/s, default rates | within 2 % | -1.0 % (-2.1 to +0.5) | – |\n",
		"| … reading requests, where there are none | ≤ 10 % more | +6 % (+3 to +8; 5.2 and 4.9 %); with a budget (GVL 349 Hz, stacks 100 Hz), without (GVL 295 Hz, stacks 98 Hz) | – |\n",
		"| CPU a stack of one thread, beside rbspy's (Ruby 3.1) | 1/50 | 1/50 (10 µs, rbspy 500 µs; 1100 stacks/s) | – |\n",
		"| first frame with a thread | what is known after 150 ms | 333 ms, at most 382 | – |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no row %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	if strings.Contains(out.String(), "100 threads") || !strings.Contains(missing.String(), "100 threads") {
		t.Errorf("what was not measured is to be left out and named:\n%s%s", &out, &missing)
	}
}

func TestParseRefuses(t *testing.T) {
	if m, err := parse(strings.NewReader("BenchmarkX-2 1 lots ns/op\n")); err == nil {
		t.Errorf("no error, %v", m)
	}
}
