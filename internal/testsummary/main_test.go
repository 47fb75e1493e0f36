package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run with everything in it: a package that passes, one with a failing subtest and a test that failed by itself, one
// that panicked, and one that did not build.
const events = `{"Action":"start","Package":"github.com/ddtop/ddtop/gvl"}
{"Action":"run","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA"}
{"Action":"run","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/one"}
{"Action":"pass","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/one"}
{"Action":"run","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/two"}
{"Action":"output","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/two","Output":"=== RUN   TestA/two\n"}
{"Action":"output","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/two","Output":"    a_test.go:7: needs root: use sudo\n"}
{"Action":"output","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/two","Output":"--- SKIP: TestA/two (0.00s)\n"}
{"Action":"skip","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA/two"}
{"Action":"pass","Package":"github.com/ddtop/ddtop/gvl","Test":"TestA"}
{"Action":"pass","Package":"github.com/ddtop/ddtop/gvl","Elapsed":1.25}
{"Action":"run","Package":"p","Test":"TestParent"}
{"Action":"run","Package":"p","Test":"TestParent/sub"}
{"Action":"output","Package":"p","Test":"TestParent/sub","Output":"    p_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestParent/sub"}
{"Action":"fail","Package":"p","Test":"TestParent"}
{"Action":"run","Package":"p","Test":"TestAlone"}
{"Action":"run","Package":"p","Test":"TestAlone/fine"}
{"Action":"pass","Package":"p","Test":"TestAlone/fine"}
{"Action":"fail","Package":"p","Test":"TestAlone"}
{"Action":"fail","Package":"p","Elapsed":0.5}
{"Action":"run","Package":"panics","Test":"TestPanics"}
{"Action":"output","Package":"panics","Test":"TestPanics","Output":"panic: oh\n"}
{"Action":"fail","Package":"panics","Elapsed":0.1}
{"ImportPath":"broken","Action":"build-output","Output":"x.go:1: syntax error\n"}
{"ImportPath":"broken","Action":"build-fail"}
{"Action":"fail","Package":"broken","Elapsed":0,"FailedBuild":"broken"}
not json
{"Action":"skip","Package":"empty","Elapsed":0}
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSummary(t *testing.T) {
	record := write(t, `ran 3.10.1 TestX/debian-3.10
ran 3.4.1 TestX/debian-3.4
ran 3.4.1 TestY/debian-3.4
skip 2.7 TestY/debian-2.7 the archive did not answer
`)
	steps := write(t, "pass go vet\nfail build for darwin\nskip race detector: no C compiler\n")
	var out bytes.Buffer
	failed, err := summarise(&out, []string{write(t, events)}, "", record, steps)
	if err != nil {
		t.Fatal(err)
	}
	if !failed {
		t.Error("nothing failed")
	}
	want := `
Ruby 2.7         0 tests ran, 1 skipped
Ruby 3.4.1       2 tests ran, 0 skipped
Ruby 3.10.1      1 tests ran, 0 skipped
Skipped 1: needs root: use sudo
    gvl TestA/two
Skipped 1: no C compiler
    step race detector
FAILED p TestParent/sub
FAILED p TestAlone
FAILED panics TestPanics
FAILED broken
FAILED step build for darwin
3 passed, 5 failed, 2 skipped
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestNothingFailed(t *testing.T) {
	var out bytes.Buffer
	failed, err := summarise(&out, []string{write(t, `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`)}, "", filepath.Join(t.TempDir(), "none"), "")
	if err != nil || failed {
		t.Errorf("failed %v, %v", failed, err)
	}
	if !strings.HasSuffix(out.String(), "\n1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("got %q", out.String())
	}
}

func TestWhatCantBeReadIsAnError(t *testing.T) {
	var out bytes.Buffer
	if failed, err := summarise(&out, []string{"/nonexistent"}, "", "", ""); err == nil || !failed {
		t.Error("a run that is missing was no error")
	}
	if failed, err := summarise(&out, nil, "", write(t, "rain 3.4\n"), ""); err == nil || !failed {
		t.Error("a wrong record was no error")
	}
	if failed, err := summarise(&out, nil, "", "", write(t, "maybe vet\n")); err == nil || !failed {
		t.Error("a wrong step was no error")
	}
}

func TestFollow(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "events")
	var out bytes.Buffer
	if err := followRun(strings.NewReader(events), &out, copied); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(copied)
	if err != nil || string(got) != events {
		t.Errorf("copied %q, %v", got, err)
	}
	want := `ok   gvl (1.2 s)
    p_test.go:3: wrong
FAIL p (0.5 s)
panic: oh
FAIL panics (0.1 s)
x.go:1: syntax error
FAIL broken (0.0 s)
not json
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
