package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stream writes the events of a run as `go test -json` does, a word each.
type stream struct{ bytes.Buffer }

func (s *stream) add(format string, args ...any) *stream {
	fmt.Fprintf(s, format+"\n", args...)
	return s
}

// started adds a test's beginning and what it says of itself: "process", "never:why" or "".
func (s *stream) started(pkg, test, says string) *stream {
	s.add(`{"Action":"run","Package":%q,"Test":%q}`, pkg, test)
	if says != "" {
		s.add(`{"Action":"attr","Package":%q,"Test":%q,"Key":"ddtop-rerun","Value":%q}`, pkg, test, says)
	}
	return s.printed(pkg, test, "=== RUN   "+test)
}

func (s *stream) printed(pkg, test, line string) *stream {
	return s.add(`{"Action":"output","Package":%q,"Test":%q,"Output":%q}`, pkg, test, line+"\n")
}

// ended adds how a test ended, or with "" for its name a package.
func (s *stream) ended(pkg, test, outcome string) *stream {
	if test == "" {
		return s.add(`{"Action":%q,"Package":%q,"Elapsed":1}`, outcome, pkg)
	}
	return s.add(`{"Action":%q,"Package":%q,"Test":%q}`, outcome, pkg, test)
}

// run adds a whole test, with one line of output.
func (s *stream) run(pkg, test, says, line, outcome string) *stream {
	return s.started(pkg, test, says).printed(pkg, test, line).ended(pkg, test, outcome)
}

// noisy has one failure of each kind.
func noisy() *stream {
	s := &stream{}
	s.started("live", "TestStates", "").started("live", "TestStates/host-3.1.2", "")
	s.run("live", "TestStates/host-3.1.2/native", "process", "    states_test.go:167: native-read: seen io", "fail")
	s.run("live", "TestStates/host-3.1.2/gc", "process", "fine", "pass")
	s.ended("live", "TestStates/host-3.1.2", "fail").ended("live", "TestStates", "fail")
	// The parent started the process and says something: it may have failed by itself.
	s.started("live", "TestGroup", "process").run("live", "TestGroup/one_(of_2)", "", "    g_test.go:1: one", "fail")
	s.printed("live", "TestGroup", "    g_test.go:9: two of them").ended("live", "TestGroup", "fail")
	s.run("live", "TestStale", "process", "    s_test.go:2: a stale name", "pass")
	s.started("live", "TestHolders", "never:a GVL has one holder")
	s.run("live", "TestHolders/debian-3.4", "process", "    h_test.go:3: two holders", "fail").ended("live", "TestHolders", "fail")
	s.run("live", "TestPure", "", "    p_test.go:4: 1 is not 2", "fail")
	s.run("live", "TestRace", "process", "    testing.go:1712: race detected during execution of test", "fail")
	s.ended("live", "", "fail")
	s.started("ends", "TestEnds", "process").printed("ends", "TestEnds", "panic: oh").ended("ends", "", "fail")
	s.run("crashes", "TestIsFine", "process", "    c_test.go:5: late", "fail")
	s.printed("crashes", "", "panic: behind the tests").ended("crashes", "", "fail")
	return s
}

// folder holds the events of runs of single tests.
func folder(t *testing.T, runs ...*stream) string {
	t.Helper()
	dir := t.TempDir()
	for i, s := range runs {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d", i)), s.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// native is a run of TestStates/host-3.1.2/native alone.
func native(outcome string) *stream {
	s := &stream{}
	s.started("live", "TestStates", "").started("live", "TestStates/host-3.1.2", "")
	s.run("live", "TestStates/host-3.1.2/native", "process", "    states_test.go:167: again", outcome)
	return s.ended("live", "TestStates/host-3.1.2", outcome).ended("live", "TestStates", outcome).ended("live", "", outcome)
}

func TestPlan(t *testing.T) {
	const (
		states  = "live ^TestStates$/^host-3\\.1\\.2$/^native$\n"
		group   = "live ^TestGroup$\n"
		crashes = "crashes ^TestIsFine$\n"
	)
	for name, c := range map[string]struct {
		again []*stream
		want  string
	}{
		"first":                {nil, states + group + crashes},
		"one passed":           {[]*stream{native("pass")}, group + crashes},
		"failed once more":     {[]*stream{native("fail")}, states + group + crashes},
		"failed twice more":    {[]*stream{native("fail"), native("fail")}, group + crashes},
		"skipped is no answer": {[]*stream{native("skip"), native("skip")}, group + crashes},
	} {
		var out bytes.Buffer
		if err := plan(&out, write(t, noisy().String()), folder(t, c.again...)); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, out.String(), c.want)
		}
	}
}

func TestFlaky(t *testing.T) {
	again := folder(t, native("fail"), (&stream{}).run("live", "TestGroup", "process", "fine", "fail").ended("live", "", "fail"), native("pass"),
		(&stream{}).run("live", "TestGroup", "process", "fine", "fail").ended("live", "", "fail"),
		// It passes, and its package does not.
		(&stream{}).run("crashes", "TestIsFine", "process", "fine", "pass").ended("crashes", "", "fail"))
	var out bytes.Buffer
	failed, err := summarise(&out, []string{write(t, noisy().String())}, again, "", "")
	if err != nil || !failed {
		t.Fatalf("failed %v, %v", failed, err)
	}
	want := `
No test ran against a Ruby.
FLAKY (failed, then passed)
    live TestStates/host-3.1.2/native: failed 2 of 3 times; first:
            states_test.go:167: native-read: seen io
FAILED live TestGroup/one_(of_2) (failed 3 of 3 times)
FAILED live TestHolders/debian-3.4 (not run again: a GVL has one holder)
FAILED live TestPure
FAILED live TestRace (not run again: a data race)
FAILED ends TestEnds
FAILED crashes TestIsFine (failed 2 of 2 times)
FAILED crashes
2 passed, 1 flaky, 7 failed, 0 skipped
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestOnlyFlakyIsNoFailure(t *testing.T) {
	s := &stream{}
	s.started("live", "TestStates", "").started("live", "TestStates/host-3.1.2", "")
	s.run("live", "TestStates/host-3.1.2/native", "process", "    states_test.go:167: seen io", "fail")
	s.ended("live", "TestStates/host-3.1.2", "fail").ended("live", "TestStates", "fail").ended("live", "", "fail")
	var out bytes.Buffer
	failed, err := summarise(&out, []string{write(t, s.String())}, folder(t, native("pass")), "", "")
	if err != nil || failed || !strings.HasSuffix(out.String(), "\n0 passed, 1 flaky, 0 failed, 0 skipped\n") {
		t.Errorf("failed %v, %v:\n%s", failed, err, out.String())
	}
	// Without that second run it is one.
	if failed, err := summarise(&out, []string{write(t, s.String())}, folder(t), "", ""); err != nil || !failed {
		t.Errorf("failed %v, %v", failed, err)
	}
}

// More failures than a noisy machine makes are not run again, and one that passed all the same stays failed.
func TestTooManyToRunAgain(t *testing.T) {
	for n, want := range map[int]int{maxAgain: maxAgain, maxAgain + 1: 0} {
		s := &stream{}
		for i := range n {
			s.run("live", fmt.Sprintf("Test%d", i), "process", "    x_test.go:1: late", "fail")
		}
		s.ended("live", "", "fail")
		path := write(t, s.String())
		var out bytes.Buffer
		if err := plan(&out, path, folder(t)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("of %d, %d are run again; want %d", n, got, want)
		}
		out.Reset()
		alone := (&stream{}).run("live", "Test0", "process", "fine", "pass").ended("live", "", "pass")
		if _, err := summarise(&out, []string{path}, folder(t, alone), "", ""); err != nil {
			t.Fatal(err)
		}
		if flaky := strings.Contains(out.String(), " 1 flaky, "); flaky != (want != 0) {
			t.Errorf("of %d:\n%s", n, out.String())
		}
		if said := strings.Contains(out.String(), "more than 8 are not the machine's noise"); said != (want == 0) {
			t.Errorf("of %d:\n%s", n, out.String())
		}
	}
}

func TestAgainThatCantBeRead(t *testing.T) {
	var out bytes.Buffer
	if failed, err := summarise(&out, nil, "/nonexistent", "", ""); err == nil || !failed {
		t.Error("a folder that is missing was no error")
	}
	if err := plan(&out, "/nonexistent", ""); err == nil {
		t.Error("a run that is missing was no error")
	}
}
