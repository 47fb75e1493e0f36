package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// byRuby counts what ran against which Ruby version, and what was skipped.
type byRuby struct {
	ran, skipped map[string]int
}

// readRecord reads the lines that rubytest appended: "ran VERSION TEST" and "skip VERSION TEST REASON".
func readRecord(r io.Reader, into *byRuby) error {
	into.ran, into.skipped = make(map[string]int), make(map[string]int)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		fields := strings.SplitN(scanner.Text(), " ", 4)
		if len(fields) < 3 {
			return fmt.Errorf("no record of a test: %q", scanner.Text())
		}
		switch fields[0] {
		case "ran":
			into.ran[fields[1]]++
		case "skip":
			into.skipped[fields[1]]++
		default:
			return fmt.Errorf("no record of a test: %q", scanner.Text())
		}
	}
	return scanner.Err()
}

// writeSummary prints what ran against which Ruby, what was skipped or failed, and the totals.
func writeSummary(w io.Writer, all *run, rubies *byRuby) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out)
	versions := slices.SortedFunc(maps.Keys(union(rubies.ran, rubies.skipped)), compareVersions)
	for _, v := range versions {
		fmt.Fprintf(out, "Ruby %-8s %4d tests ran, %d skipped\n", v, rubies.ran[v], rubies.skipped[v])
	}
	if len(versions) == 0 {
		fmt.Fprintln(out, "No test ran against a Ruby.")
	}

	reasons := make(map[string][]string)
	for _, r := range all.results {
		if r.outcome == "skip" {
			reasons[r.reason] = append(reasons[r.reason], r.String())
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		tests := reasons[reason]
		fmt.Fprintf(out, "Skipped %d: %s\n", len(tests), reason)
		for _, t := range tests[:min(len(tests), maxListed)] {
			fmt.Fprintf(out, "    %s\n", t)
		}
		if more := len(tests) - maxListed; more > 0 {
			fmt.Fprintf(out, "    and %d more\n", more)
		}
	}
	writeFlaky(out, all)
	for _, note := range all.notes {
		fmt.Fprintln(out, note)
	}
	for _, r := range all.results {
		if r.outcome == "fail" {
			reason := ""
			if r.reason != "" {
				reason = " (" + r.reason + ")"
			}
			fmt.Fprintf(out, "FAILED %s%s\n", r, reason)
		}
	}
	flaky := ""
	if n := all.count("flaky"); n > 0 {
		flaky = fmt.Sprintf("%d flaky, ", n)
	}
	fmt.Fprintf(out, "%d passed, %s%d failed, %d skipped\n", all.count("pass"), flaky, all.failed(), all.count("skip"))
	return out.Flush()
}

// writeFlaky prints the tests that failed, then passed, with what they said when they failed first.
func writeFlaky(out io.Writer, all *run) {
	if all.count("flaky") == 0 {
		return
	}
	fmt.Fprintln(out, "FLAKY (failed, then passed)")
	for _, r := range all.results {
		if r.outcome != "flaky" {
			continue
		}
		fmt.Fprintf(out, "    %s: %s; first:\n", r, r.reason)
		n := 0
		for _, line := range r.output {
			if strings.HasPrefix(line, "=== ") {
				continue // go test's own words
			}
			if n++; n <= maxOutput {
				fmt.Fprintf(out, "        %s\n", strings.TrimRight(line, "\n"))
			}
		}
		if n > maxOutput {
			fmt.Fprintf(out, "        and %d more lines\n", n-maxOutput)
		}
	}
}

// maxOutput is how many lines of a flaky test's first failure are printed; the run has printed all of them before.
const maxOutput = 60

// maxListed is how many skipped tests of one reason are named.
const maxListed = 5

func union(a, b map[string]int) map[string]bool {
	all := make(map[string]bool)
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

// compareVersions orders 2.7.4 before 3.1 before 3.10.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		an, aErr := strconv.Atoi(as[i])
		bn, bErr := strconv.Atoi(bs[i])
		if aErr != nil || bErr != nil {
			return cmp.Compare(a, b)
		}
		if c := cmp.Compare(an, bn); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

// progress prints a run while it goes: a line a package, and the output of what failed.
type progress struct {
	w      io.Writer
	output map[test][]string
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, output: make(map[test][]string)}
}

func (p *progress) event(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(p.w, e.Output)
	case "output":
		p.output[t] = append(p.output[t], e.Output)
	case "fail":
		// The package's own output repeats its failed tests'; what a panic printed stands under the test that ran.
		for _, line := range p.output[t] {
			fmt.Fprint(p.w, line)
		}
		if e.Test == "" {
			p.pkg(e, "FAIL")
		}
		delete(p.output, t)
	case "pass":
		if e.Test == "" {
			p.pkg(e, "ok")
		}
		delete(p.output, t)
	case "skip":
		delete(p.output, t)
	}
}

// pkg prints a package's line, and what of its tests never ended: a panic or a time-out ended the process.
func (p *progress) pkg(e event, word string) {
	for t, lines := range p.output {
		if t.pkg != e.Package || t.name == "" {
			continue
		}
		if word == "FAIL" {
			for _, line := range lines {
				fmt.Fprint(p.w, line)
			}
		}
		delete(p.output, t)
	}
	fmt.Fprintf(p.w, "%-4s %s (%.1f s)\n", word, test{e.Package, ""}, e.Elapsed)
}
