package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/internal/rerun"
)

// event is a line of `go test -json` (go doc test2json), or of the build before it.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64
	ImportPath  string
	FailedBuild string
	// Key and Value are an attribute's that a test gave itself.
	Key, Value string
}

// readEvents calls on for each event. Lines that are no JSON are output of the go command itself.
func readEvents(r io.Reader, on func(event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var e event
			if line[0] != '{' || json.Unmarshal(line, &e) != nil {
				e = event{Action: "build-output", Output: string(line) + "\n"}
			}
			on(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// test names one test of one package.
type test struct {
	pkg, name string
}

func (t test) String() string {
	pkg := strings.TrimPrefix(t.pkg, "github.com/ddtop/ddtop/")
	if t.name == "" {
		return pkg
	}
	return pkg + " " + t.name
}

// parent returns the test that t is a subtest of.
func (t test) parent() (test, bool) {
	i := strings.LastIndexByte(t.name, '/')
	if i < 0 {
		return test{}, false
	}
	return test{t.pkg, t.name[:i]}, true
}

// result is how a test or step ended.
type result struct {
	test
	outcome string // pass, fail, skip, or flaky: failed, then passed when it was run again
	reason  string // of a skip; of a failure, why it was not run again or how often it was
	output  []string
}

// run is a run of `go test`, or several together.
type run struct {
	// results are of the leaves: tests without subtests. A test with subtests counts only when it failed and none of
	// them did, a package when it failed and none of its tests did (it did not build), or when it crashed behind them.
	results []result
	// notes are printed before the failures.
	notes []string

	order    []test
	outcomes map[test]string
	output   map[test][]string
	parents  map[test]bool
	said     map[test]string // by a test of itself, for internal/rerun
	ended    map[test]bool
}

func newRun() *run {
	return &run{outcomes: make(map[test]string), output: make(map[test][]string), parents: make(map[test]bool),
		said: make(map[test]string), ended: make(map[test]bool)}
}

func (r *run) event(e event) {
	if e.Package == "" {
		return
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "run":
		r.order = append(r.order, t)
		r.outcomes[t] = ""
		for p, ok := t.parent(); ok; p, ok = p.parent() {
			r.parents[p] = true
		}
	case "attr":
		if e.Key == rerun.Key && !strings.HasPrefix(r.said[t], rerun.ByNever) {
			r.said[t] = e.Value
		}
	case "output":
		r.output[t] = append(r.output[t], e.Output)
	case "pass", "fail", "skip":
		if _, seen := r.outcomes[t]; !seen {
			r.order = append(r.order, t)
		}
		r.outcomes[t] = e.Action
		r.ended[t] = true
		if e.Action == "pass" {
			delete(r.output, t)
		}
	}
}

// end works out the results once all events were seen.
func (r *run) end() {
	failedBelow := make(map[test]bool)
	for _, t := range r.order {
		if t.name == "" {
			continue
		}
		outcome := r.outcomes[t]
		if outcome == "" {
			outcome = "fail" // it never ended: the process did
			r.outcomes[t] = outcome
		}
		if outcome != "fail" {
			continue
		}
		failedBelow[test{t.pkg, ""}] = true
		for p, ok := t.parent(); ok; p, ok = p.parent() {
			failedBelow[p] = true
		}
	}
	for _, t := range r.order {
		outcome := r.outcomes[t]
		group := t.name == "" || r.parents[t]
		if group && (outcome != "fail" || failedBelow[t] && !r.crashed(t)) {
			continue
		}
		res := result{test: t, outcome: outcome}
		switch outcome {
		case "skip":
			res.reason = skipReason(r.output[t])
		case "fail":
			res.output = r.output[t]
		}
		r.results = append(r.results, res)
	}
}

// crashWords are what a package prints that ended otherwise than by its tests' results.
var crashWords = []string{"panic: ", "fatal error: ", "WARNING: DATA RACE", "signal: "}

// crashed tells whether t is a package that said itself that it crashed: no failed test explains that. What a panic prints
// while a test runs stands under that test, which then never ended.
func (r *run) crashed(t test) bool {
	return t.name == "" && slices.ContainsFunc(r.output[t], func(line string) bool {
		return slices.ContainsFunc(crashWords, func(word string) bool { return strings.HasPrefix(line, word) })
	})
}

// skipReason finds what was given to t.Skip among a skipped test's output.
func skipReason(output []string) string {
	reason := "no reason given"
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		// file.go:12: reason
		if _, after, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				line = text
			}
		}
		reason = line
	}
	return reason
}

// add appends another run's results.
func (r *run) add(other *run) {
	r.results = append(r.results, other.results...)
	r.notes = append(r.notes, other.notes...)
}

func (r *run) count(outcome string) int {
	n := 0
	for _, res := range r.results {
		if res.outcome == outcome {
			n++
		}
	}
	return n
}

func (r *run) failed() int { return r.count("fail") }

// readSteps adds steps that were no tests: builds, vet, the Rubies. A line is "OUTCOME NAME".
func readSteps(r io.Reader, into *run) error {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		outcome, name, ok := strings.Cut(scanner.Text(), " ")
		if !ok || outcome != "pass" && outcome != "fail" && outcome != "skip" {
			return fmt.Errorf("no step: %q", scanner.Text())
		}
		res := result{test: test{"step", name}, outcome: outcome}
		if outcome == "skip" {
			res.name, res.reason, _ = strings.Cut(name, ": ")
		}
		into.results = append(into.results, res)
	}
	return scanner.Err()
}
