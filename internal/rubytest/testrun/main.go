// Command testrun is the part of scripts/test that evaluates the output of tests.
//
//	testrun count EVENTS RECORD FLAKY EXIT -- FLAGS
//	        reads the events of a run of go test -json, whose exit code is EXIT. It prints how many tests passed,
//	        failed and were skipped. If a test failed only because it saw something too seldom
//	        (rubytest.OftenEnough), it runs the test again, alone and with the same FLAGS. If the test then
//	        passes, it reports the test as flaky, with both outputs, in the file FLAKY.
//	testrun flaky FLAKY
//	        prints the flaky tests of that file, and fails if there are two or more.
//	testrun packages RECORD
//	        prints the packages in which tests were left out with -short, one per line.
//	testrun left RECORD BINARY ARGUMENTS
//	        runs the tests of a test binary that were left out with -short, and no others. It is for go test -exec.
//
// RECORD is the file that the environment variable DDTOP_TEST_RECORD named during the run.
package main

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) >= 6 && args[0] == "count" && args[5] == "--":
		code, err := strconv.Atoi(args[4])
		if err != nil {
			return err
		}
		return count(args[1], args[2], args[3], code, args[6:], out)
	case len(args) == 2 && args[0] == "flaky":
		return flaky(args[1], out)
	case len(args) == 2 && args[0] == "packages":
		left, err := readRecord(args[1], "left")
		if err != nil {
			return err
		}
		for _, pkg := range packages(left) {
			fmt.Fprintln(out, pkg)
		}
		return nil
	case len(args) >= 3 && args[0] == "left":
		return runLeft(args[1], args[2], args[3:])
	}
	return errors.New("wrong use; see the comment of internal/rubytest/testrun")
}

// A test is a test or subtest of a package.
type test struct{ pkg, name string }

// readRecord returns the tests from those lines of the record that have the form "WORD PACKAGE TEST".
func readRecord(path, word string) ([]test, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tests []test
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == word {
			tests = append(tests, test{fields[1], fields[2]})
		}
	}
	return tests, nil
}

func packages(tests []test) []string {
	var all []string
	for _, t := range tests {
		all = append(all, t.pkg)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A result is what a run of go test reported about its tests.
type result struct {
	ended  map[test]string // "pass", "fail" or "skip"
	output map[string]string
	failed []string // the packages that failed, in the order in which they ended
}

// whole returns the top-level test to which a subtest belongs.
func (t test) whole() test {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}
}

func readEvents(r io.Reader) (result, error) {
	res := result{ended: make(map[test]string), output: make(map[string]string)}
	for dec := json.NewDecoder(r); ; {
		var e struct{ Action, Package, Test, Output string }
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return res, nil
		} else if err != nil {
			return res, err
		}
		t := test{e.Package, e.Test}
		switch e.Action {
		case "output":
			// The output of a subtest is also added to the output of its top-level test.
			res.output[e.Package+" "+t.whole().name] += e.Output
		case "pass", "fail", "skip":
			if e.Test != "" {
				res.ended[t] = e.Action
			} else if e.Action == "fail" {
				res.failed = append(res.failed, e.Package)
			}
		}
	}
}

// failures returns the top-level tests that failed.
func (res result) failures() []test {
	var failed []test
	for t, how := range res.ended {
		if how == "fail" && t == t.whole() {
			failed = append(failed, t)
		}
	}
	slices.SortFunc(failed, func(a, b test) int { return strings.Compare(a.pkg+a.name, b.pkg+b.name) })
	return failed
}

// final reports whether a test must not run again, even if the record says that the test saw something too seldom. Then
// the test's failure is final.
func (res result) final(t test) bool {
	// The race detector may report a race after the test's last cleanup. The record has already been written by then,
	// so only the output shows the race.
	return strings.Contains(res.output[t.pkg+" "+t.name], "race detected during execution of test")
}

// count runs some failed tests again: tests that failed because they saw something too seldom, according to the record.
// It does not run a test again whose failure is final. Then count prints how many tests passed, failed and were
// skipped.
func count(events, record, flaky string, code int, flags []string, out io.Writer) error {
	f, err := os.Open(events)
	if err != nil {
		return err
	}
	defer f.Close()
	res, err := readEvents(f)
	if err != nil {
		return err
	}
	seldom, err := readRecord(record, "seldom")
	if err != nil {
		return err
	}
	var passed, failed, skipped int
	for _, how := range res.ended {
		switch how {
		case "pass":
			passed++
		case "fail":
			failed++
		case "skip":
			skipped++
		}
	}
	ended := res.failures()
	for _, t := range ended {
		if res.final(t) || !slices.Contains(seldom, t) {
			continue
		}
		second, ok := again(t, flags)
		if !ok {
			fmt.Fprintf(os.Stderr, "%s of %s failed again, alone:\n%s", t.name, t.pkg, second)
			continue
		}
		if err := report(flaky, t, res.output[t.pkg+" "+t.name], second); err != nil {
			return err
		}
		passed, failed = passed+1, failed-1
	}
	// A package can fail although none of its tests has failed: its build fails, or it crashes.
	for _, pkg := range res.failed {
		if !slices.ContainsFunc(ended, func(t test) bool { return t.pkg == pkg }) {
			failed++
		}
	}
	if code != 0 && len(ended) == 0 && failed == 0 {
		failed = 1
	}
	_, err = fmt.Fprintln(out, passed, failed, skipped)
	return err
}

// again runs a test alone, and reports whether it passed.
func again(t test, flags []string) (output string, ok bool) {
	args := append([]string{"test", "-v", "-count=1"}, flags...)
	cmd := exec.Command("go", append(args, "-run", "^"+regexp.QuoteMeta(t.name)+"$", t.pkg)...)
	text, err := cmd.CombinedOutput()
	// go test also succeeds if no test matches the pattern. So check that the output names the test as passed.
	return string(text), err == nil && bytes.Contains(text, []byte("--- PASS: "+t.name+" "))
}

// flakyTest is the text with which the report of a flaky test begins. No other line of the report begins with it.
const flakyTest = "FLAKY: "

// flaky prints the reports of flaky tests. One flaky test in a run can be chance, but two or more are an error.
func flaky(path string, out io.Writer) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, flakyTest) {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("%d tests were flaky; a run may have one", n)
	}
	return nil
}

// report appends the report of a flaky test, with both outputs of the test, to a file.
func report(path string, t test, first, second string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, flakyTest+"%s of %s failed, and passed alone\n%s%s",
		t.name, t.pkg, indent("first", first), indent("second", second))
	return errors.Join(err, f.Close())
}

func indent(what, text string) string {
	var b strings.Builder
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fmt.Fprintf(&b, "  %s: %s\n", what, lines.Text())
	}
	return b.String()
}

// runLeft replaces this process by the test binary. It passes a pattern that matches only the tests that -short left
// out.
func runLeft(record, binary string, args []string) error {
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-test.run=") }) {
		return execute(binary, args) // the function count has set a pattern: it runs a flaky test again, alone
	}
	left, err := readRecord(record, "left")
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	pkg := strings.TrimSuffix(info.Path, ".test")
	p := pattern(left, pkg)
	if p == "" {
		return fmt.Errorf("no test of %s was left out", pkg)
	}
	return execute(binary, append(slices.Clone(args), "-test.run="+p))
}

// execute replaces this process by another program.
func execute(program string, args []string) error {
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}

// pattern returns a pattern for -test.run that matches the left-out tests of a package, each by its full name.
func pattern(left []test, pkg string) string {
	var names []string
	for _, t := range left {
		if t.pkg == pkg {
			names = append(names, t.name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var wanted []string
	for _, name := range names {
		// The pattern already has the name of the test to which this subtest belongs. This name also matches the
		// subtest. So leave out the subtest.
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n+"/") }) {
			continue
		}
		elements := strings.Split(name, "/")
		for i, e := range elements {
			elements[i] = "^" + regexp.QuoteMeta(e) + "$"
			if i > 0 && i == len(elements)-1 {
				// Subtests with the same name get numbers.
				elements[i] = "^" + regexp.QuoteMeta(e) + `(#\d+)?$`
			}
		}
		wanted = append(wanted, strings.Join(elements, "/"))
	}
	return strings.Join(wanted, "|")
}
