package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const fakes = "github.com/ddtop/ddtop/internal/rubytest/testrun/testdata/"

// A fakeRun is a run of go test on the packages in testdata, whose tests fail in known ways.
type fakeRun struct {
	tries, record, flaky string
	events               bytes.Buffer
	code                 int
}

func newFakeRun(t *testing.T) *fakeRun {
	dir := t.TempDir()
	r := &fakeRun{tries: filepath.Join(dir, "tries"), record: filepath.Join(dir, "record"), flaky: filepath.Join(dir, "flaky")}
	if err := errors.Join(os.Mkdir(r.tries, 0o700), os.WriteFile(r.record, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DDTOP_TEST_FAKE", r.tries)
	t.Setenv("DDTOP_TEST_RECORD", r.record)
	t.Setenv("CI", "")
	return r
}

func (r *fakeRun) goTest(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-json", "-count=1", "-vet=off"}, args...)...)
	cmd.Stdout = &r.events
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
}

// runs returns how often each test ran.
func (r *fakeRun) runs(t *testing.T) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.tries, "*"))
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]int)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n[filepath.Base(file)] = len(text)
	}
	return n
}

// TestCount runs a package with tests that fail in different ways. A test must run again only if it fails because
// something was seen too seldom, and for no other reason.
func TestCount(t *testing.T) {
	r := newFakeRun(t)
	r.goTest(t, "-short", fakes+"fake", fakes+"crash")
	events := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(events, r.events.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := count(events, r.record, r.flaky, r.code, []string{"-short"}, &out); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"TestPasses": 1, "TestSkips": 1, "TestFails": 1, "TestNever": 1, "TestNeverAndSeldom": 1, "TestSeldomAndALeak": 1,
		"TestSeldomNotDeclared": 1, "TestSeldomNowNotDeclared": 1, "TestPartlyLong": 1,
		"TestSeldomOnce": 2, "TestSeldomOnceInASubtest": 2, "TestSeldomTwice": 2,
	}
	if got := r.runs(t); !maps.Equal(got, want) {
		t.Errorf("runs: %v, want %v; events:\n%s", got, want, r.events.Bytes())
	}
	// Five tests passed: TestPasses, the two flaky tests, TestPartlyLong and its short subtest.
	//
	// Nine failed: the crash, TestSeldomTwice, the two tests without OftenEnough, TestFails, and three tests with final
	// failures, one of them with a subtest.
	//
	// Five were skipped: TestSkips, two long tests, and two subtests in which something was seen too seldom.
	if got := out.String(); got != "5 9 5\n" {
		t.Errorf("passed, failed, skipped: %q", got)
	}

	out.Reset()
	if err := flaky(r.flaky, &out); err == nil || !strings.Contains(err.Error(), "2 tests were flaky") {
		t.Errorf("two flaky tests: %v", err)
	}
	for _, line := range []string{
		"FLAKY: TestSeldomOnce of " + fakes + "fake failed, and passed alone\n",
		"seen 3 times\n", "FLAKY: TestSeldomOnceInASubtest of ", "sub: seen 2 times\n", "  second: --- PASS: TestSeldomOnce (",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in the report:\n%s", line, out.String())
		}
	}
}

func TestOneFlakyTest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flaky")
	var out bytes.Buffer
	if err := flaky(file, &out); err != nil || out.Len() != 0 {
		t.Errorf("none: %v, %q", err, out.String())
	}
	for n := 1; n <= 2; n++ {
		if err := report(file, test{"pkg", "TestX"}, flakyTest+"a line of a test", "PASS"); err != nil {
			t.Fatal(err)
		}
		if err := flaky(file, &out); (err != nil) != (n == 2) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestLeft: "testrun left" must run the tests of a package that -short left out, and no other test.
func TestLeft(t *testing.T) {
	r := newFakeRun(t)
	r.goTest(t, "-short", "-run", "Long|Passes", fakes+"fake")
	binary := filepath.Join(t.TempDir(), "testrun")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.goTest(t, "-exec", binary+" left "+r.record, fakes+"fake")
	want := map[string]int{"TestPasses": 1, "TestPartlyLong": 2, "TestLong": 1}
	if got := r.runs(t); !maps.Equal(got, want) || r.code != 0 {
		t.Errorf("runs: %v, want %v; exit code %d; events:\n%s", got, want, r.code, r.events.Bytes())
	}
	if n := strings.Count(r.events.String(), `"Action":"pass","Package":"`+fakes+`fake","Test":"TestPartlyLong/short_one"`); n != 1 {
		t.Errorf("the short subtest ran %d times", n)
	}
}

func TestPattern(t *testing.T) {
	left := []test{
		{"p", "TestB/debian-2.7"}, {"p", "TestA"}, {"p", "TestA/debian-2.7"}, {"q", "TestC"}, {"p", "TestB/a|b/c"}, {"p", "TestA"},
	}
	if got, want := pattern(left, "p"), `^TestA$|^TestB$/^a\|b$/^c(#\d+)?$|^TestB$/^debian-2\.7(#\d+)?$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := packages(left); strings.Join(got, " ") != "p q" {
		t.Errorf("packages %v", got)
	}
}
