package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/internal/rerun"
)

const (
	// maxAgain is how many failed tests are run again: more than that is not the machine's noise.
	maxAgain = 8
	// maxAttempts is how often a failed test is run again.
	maxAttempts = 2
)

// mayRunAgain tells whether one failure of a test may be the machine's: it, a test it belongs to, or one that belongs to it
// watches a process, none of them says that it must never be run again, and it ended by itself. why is "" for a test that says nothing.
func (r *run) mayRunAgain(t test) (ok bool, why string) {
	if t.name == "" || !r.ended[t] {
		return false, ""
	}
	process := false
	for other, said := range r.said {
		above := other == t || t.below(other)
		if !above && !other.below(t) {
			continue
		}
		reason, never := strings.CutPrefix(said, rerun.ByNever)
		if never && (above || r.outcomes[other] == "fail") {
			return false, reason
		}
		process = process || said == rerun.ByProcess
	}
	if !process {
		return false, ""
	}
	for other, lines := range r.output {
		if (other == t || other.below(t)) && slices.ContainsFunc(lines, func(l string) bool {
			return strings.Contains(l, "race detected during execution of test")
		}) {
			return false, "a data race"
		}
	}
	return true, ""
}

// below tells whether t is a subtest of group, at any depth.
func (t test) below(group test) bool {
	return t.pkg == group.pkg && strings.HasPrefix(t.name, group.name+"/")
}

// saidItself tells whether a test with subtests printed something: it may have failed by itself and not only with them.
func (r *run) saidItself(t test) bool {
	return slices.ContainsFunc(r.output[t], func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---")
	})
}

// units are the failed tests to run again, and the failed leaves that each stands for: a leaf is run alone, but when a
// test that it belongs to may have failed by itself, the whole of that.
func (r *run) units() (units []test, leaves int) {
	for _, res := range r.results {
		if res.outcome != "fail" {
			continue
		}
		if ok, _ := r.mayRunAgain(res.test); !ok {
			continue
		}
		leaves++
		unit := res.test
		for p, ok := unit.parent(); ok; p, ok = p.parent() {
			if r.outcomes[p] == "fail" && r.saidItself(p) {
				unit = p
			}
		}
		if ok, _ := r.mayRunAgain(unit); ok && !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	return units, leaves
}

// unitOf finds the unit that stands for a failed test.
func unitOf(units []test, t test) (test, bool) {
	i := slices.IndexFunc(units, func(u test) bool { return u == t || t.below(u) })
	if i < 0 {
		return test{}, false
	}
	return units[i], true
}

// passed tells whether a run of one unit alone passed: it ran, it and its package passed.
func (r *run) passed(unit test) bool {
	return r.outcomes[unit] == "pass" && r.outcomes[test{unit.pkg, ""}] == "pass"
}

// pattern is the argument of -run that chooses one test alone.
func (t test) pattern() string {
	parts := strings.Split(t.name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// readAgain reads the events of the runs of single tests, in the order they were made: the files of a folder, by name.
func readAgain(dir string) ([]*run, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var runs []*run
	for _, e := range entries {
		r := newRun()
		err := readFile(filepath.Join(dir, e.Name()), func(f io.Reader) error { return readEvents(f, r.event) })
		if err != nil {
			return nil, err
		}
		r.end()
		runs = append(runs, r)
	}
	return runs, nil
}

// attempts counts the runs of a unit alone, and tells whether one passed.
func attempts(again []*run, unit test) (n int, passed bool) {
	for _, r := range again {
		if _, ran := r.outcomes[unit]; ran {
			n++
			passed = passed || r.passed(unit)
		}
	}
	return n, passed
}

// plan prints a line "PACKAGE PATTERN" for each test of a run that is to be run again now, given what was: none when too
// many failed.
func plan(w io.Writer, path, dir string) error {
	r := newRun()
	if err := readFile(path, func(f io.Reader) error { return readEvents(f, r.event) }); err != nil {
		return err
	}
	r.end()
	again, err := readAgain(dir)
	if err != nil {
		return err
	}
	units, leaves := r.units()
	if leaves > maxAgain {
		return nil
	}
	out := bufio.NewWriter(w)
	for _, u := range units {
		if n, passed := attempts(again, u); n < maxAttempts && !passed {
			fmt.Fprintf(out, "%s %s\n", u.pkg, u.pattern())
		}
	}
	return out.Flush()
}

// judge turns failures of tests that passed when they were run again into flaky ones, and says of the others whether they
// were run again.
func (r *run) judge(again []*run) {
	units, leaves := r.units()
	if leaves > maxAgain {
		r.notes = append(r.notes, fmt.Sprintf("%d failed tests could have been run again; more than %d are not the machine's noise: none was",
			leaves, maxAgain))
		units = nil
	}
	for i := range r.results {
		res := &r.results[i]
		if res.outcome != "fail" {
			continue
		}
		unit, ok := unitOf(units, res.test)
		if !ok {
			if _, why := r.mayRunAgain(res.test); why != "" {
				res.reason = "not run again: " + why
			}
			continue
		}
		n, passed := attempts(again, unit)
		switch {
		case passed:
			res.outcome = "flaky"
			res.reason = fmt.Sprintf("failed %d of %d times", n, n+1)
		case n > 0:
			res.reason = fmt.Sprintf("failed %d of %d times", n+1, n+1)
		}
		// A test that may have failed by itself is run as a whole; what it printed belongs to the story.
		if unit != res.test {
			res.output = slices.Concat(res.output, r.output[unit])
		}
	}
}
