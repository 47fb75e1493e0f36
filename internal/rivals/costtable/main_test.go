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
BenchmarkRivals/debian-3.1/rbspy-2 	       1	 0 ns/op	 500 cpu-µs/stack
BenchmarkRivals/debian-3.1/ddtop-2 	       1	 0 ns/op	 10 cpu-µs/stack 1100 stacks/s
BenchmarkRequests/none-2  1  2.7 budget-%  349 budget-lock-Hz  99.8 budget-stack-Hz  2.3 budget-without-%  295 budget-without-lock-Hz  97.8 budget-without-stack-Hz  5.884 more-%  7.654 more-high-%  3.071 more-low-%  5.222 with-%  4.889 without-%
BenchmarkFirstFrame/rails-2        	       1	       381.8 ddtop-longest-ms	       332.7 ddtop-ms
BenchmarkIdle-2  1  0.18 switches-%  21.9 switches-MB
BenchmarkFleet-2  1  2.3 ddtop-%  85.2 ddtop-MB  3.1 before-%  90 before-MB
PASS
`

func TestTable(t *testing.T) {
	var out, missing bytes.Buffer
	if err := run(strings.NewReader(output), &out, &missing); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 10 threads | ≤ 1.5 × a bare loop | 3.0 % (GVL 913 Hz, stacks 100 Hz), 1.5 × a bare loop's (2.0 %) | 9.0 %, 4.5 × a bare loop's (2.0 %) |\n",
		"| 500 threads, with the screen (200x50) | ≤ 2 × 10 threads | 7.5 %, 1.5 × 10 threads (5.0 %) | – |\n",
		"| 10 threads, stacks alone at 100 Hz | ≤ 1 % | 0.75 % | – |\n",
		"| idle for half a minute, with the screen | ≤ 0.2 % | 0.18 %, 22 MB | – |\n",
		"| 50 workers, `push --children` | ≤ 2 %, 2 MB for each | 2.3 %, 85 MB | 3.1 %, 90 MB |\n",
		"| … reading requests of a program without requests | ≤ 10 % more | +6 % (+3 to +8; 5.2 and 4.9 %); with a budget (GVL 349 Hz, stacks 100 Hz), without (GVL 295 Hz, stacks 98 Hz) | – |\n",
		"| CPU time of a stack of one thread, beside rbspy's (Ruby 3.1) | 1/50 | 1/50 (10 µs, rbspy 500 µs; 1100 stacks/s) | – |\n",
		"| … a worker of Rails | ≤ 74 ms | 333 ms, at most 382 | – |\n",
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

func TestExactTable(t *testing.T) {
	const output = `BenchmarkExact/compute-2  1  0 ns/op  5.716 1-kHz-%  790.4 1-kHz-lock-Hz  1.5 1-kHz-done-%  2 1-kHz-done-high-%  1 1-kHz-done-low-%  0.15 1-kHz-more-cpu-%  0.2 1-kHz-more-cpu-high-%  0.1 1-kHz-more-cpu-low-%  0.1013 exact-estimate-%  0.7 exact-%  -88 exact-beside-1-kHz-%  -90.1 exact-beside-1-kHz-low-%  -85 exact-beside-1-kHz-high-%  3 exact-done-%  4 exact-done-high-%  -2 exact-done-low-%  0.6 exact-more-cpu-%  1 exact-more-cpu-high-%  -2.3 exact-more-cpu-low-%  366.7 exact-hits/s  0 exact-lost  21715 none-done/s  6.801 none-µs  6.583 exact-turns/s
BenchmarkExact/idle-2  1  0 ns/op  65.2 exact-hits/s  3 exact-lost  11 exact-turns/s
BenchmarkExactRails/full-2  1  5 1-kHz-%  713.1 1-kHz-lock-Hz  2 exact-%  91 none-requests/s  74 none-p50-ms  1150 none-p99-ms  8.66 none-cpu-ms  90 exact-requests/s  -1 exact-more-requests/s-%  -2 exact-more-requests/s-low-%  1 exact-more-requests/s-high-%  75 exact-p50-ms  1 exact-more-p50-ms-%  -3 exact-more-p50-ms-low-%  4 exact-more-p50-ms-high-%  1200 exact-p99-ms  5 exact-more-p99-ms-%  2 exact-more-p99-ms-low-%  8 exact-more-p99-ms-high-%  9.1 exact-cpu-ms  4 exact-more-cpu-ms-%  3 exact-more-cpu-ms-low-%  6 exact-more-cpu-ms-high-%  900 exact-turns/s  5000 exact-hits/s  2.5 exact-estimate-%  -60 exact-beside-1-kHz-%  -61 exact-beside-1-kHz-low-%  -50 exact-beside-1-kHz-high-%  0 exact-ended  100 exact-on-%  20 exact-usual-ended  3.3 exact-usual-on-%
`
	var out, missing bytes.Buffer
	if err := runExact(strings.NewReader(output), &out, &missing); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 4 threads compute | 7 | 367 | 5.7 % (GVL 790 Hz) | 0.70 % | -88.0 % (-90.1 to -85.0) | 6.8 µs | +0.1 % (+0.1 to +0.2) | +0.6 % (-2.3 to +1.0) | +0.1 % | +1.5 % (+1.0 to +2.0) | +3.0 % (-2.0 to +4.0) |\n",
		"| 11 | 65 (3 records lost) |",
		"| – | – |\n| 4 threads compute |", // the idle process has no work to report
		"| full machine | none | 91 | 74 ms | 1150 ms | 8.7 ms | – | – | – | – | – |\n",
		"| … | exact, no budget | 90, -1.0 % (-2.0 to +1.0) | 75 ms, +1.0 % (-3.0 to +4.0) | 1200 ms, +5.0 % (+2.0 to +8.0) | 9.1 ms, +4.0 % (+3.0 to +6.0) | +2.5 % | 2.0 % | -60.0 % (-61.0 to -50.0) | 900 | 5000 |\n",
		"| … | exact, as it comes (ended itself 20 times, on for 3.3 % of the time) |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no row %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	for _, want := range []string{"4 threads make objects", "Rails, a free CPU"} {
		if !strings.Contains(missing.String(), want) {
			t.Errorf("%q is not said to be missing: %s", want, &missing)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != 13 && strings.Count(line, "|") != 12 {
			t.Errorf("a row of another width than its table's: %s", line)
		}
	}
}

func TestQualityTable(t *testing.T) {
	const output = `BenchmarkQuality/rails-half-2 1 0 ns/op 1.9 switches-% 2.5 switches-screen-% 0.24 switches-kernel-% 100 switches-told-states-% 100 switches-told-waits-% 100 switches-told-stacks-% 50 switches-told-requests-% 0.12 switches-off-points 0.41 switches-worst-points 99.6 switches-waits-% 97 switches-long-requests-% 80 switches-short-requests-% 4 switches-length-off-% 9 switches-lock-Hz 9 switches-stack-Hz 3.1 polling-% 4 polling-screen-% 6 rbspy-% 98 rbspy-stack-Hz
BenchmarkQuality/known-calls-2 1 0 ns/op 0.3 polling-% 0.4 polling-screen-% 0 polling-impossible 5027 polling-stacks
BenchmarkRails/free-cpu-2 1 0 ns/op 50.2 none-requests/s 11.1 none-cpu-ms 20.5 none-p50-ms 41 none-p99-ms 49 ddtop-requests/s 46 rbspy-requests/s
BenchmarkPerRequest-2 1 0 ns/op 34 pairs 0.6 more-cpu-% -0.7 more-cpu-low-% 1.8 more-cpu-high-% 0.3 fewer-requests-% -0.2 fewer-requests-low-% 0.9 fewer-requests-high-%
`
	var out, missing strings.Builder
	if err := runQuality(strings.NewReader(output), &out, &missing); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### Rails, half full\n\n| | none | rbspy | switches | moved | polling |\n| --- | --- | --- | --- | --- | --- |\n" +
			"| CPU time while recording | – | 6.0 % | 1.9 % | – | 3.1 % |\n",
		"| … in the kernel, for BPF programs | – | – | 0.24 % | – | – |\n",
		"| requests ≥ 20 ms, shorter ones seen | – | – | 97 %, 80 % | – | – |\n",
		"| samples, stacks per second | – | –, 98 | 9.0, 9.0 | – | – |\n",
		"| requests per second | 50 | 46 | 49 | – | – |\n",
		"| latency p50, p99 | 20 ms, 41 ms | – | – | – | – |\n",
		"| … more than without, of pairs | – | – | +0.6 % (-0.7 to +1.8, 34 pairs) | – | – |\n",
		"### One thread computes\n\n| | none | rbspy | switches | moved | polling |\n| --- | --- | --- | --- | --- | --- |\n" +
			"| CPU time while recording | – | – | – | – | 0.30 % |\n",
		"| impossible stacks, of how many | – | – | – | – | 0, 5027 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no row %s in\n%s", want, out.String())
		}
	}
	if !strings.Contains(missing.String(), "500 threads") {
		t.Errorf("what is missing: %s", missing.String())
	}
}
