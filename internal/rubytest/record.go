package rubytest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

func env(name string) string { return os.Getenv(name) }

func onCI() bool { return env("CI") == "true" }

// reasons keeps why tests were skipped, by test name, because testing.T has no method that returns it.
type reasons struct {
	mu     sync.Mutex
	byTest map[string]string
}

var skipReasons = reasons{byTest: make(map[string]string)}

func (r *reasons) put(test, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byTest[test] = reason
}

func (r *reasons) take(test string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	reason, ok := r.byTest[test]
	if !ok {
		return "the test gave its reason to testing.T alone"
	}
	delete(r.byTest, test)
	return reason
}

// recorded holds the pairs of test and Ruby that are already in the record, because a test may start many programs.
var recorded sync.Map

// recordAtEnd records, at the end of the test, that the test ran on r or was skipped. A test that calls it several
// times for one Ruby is recorded once.
func recordAtEnd(t testing.TB, r Ruby) {
	type pair struct{ test, ruby string }
	key := pair{t.Name(), r.Name}
	if _, already := recorded.LoadOrStore(key, true); already {
		return
	}
	t.Cleanup(func() {
		recorded.Delete(key) // with -count the same test comes again
		if t.Skipped() {
			record("skip", r.Version, t.Name(), skipReasons.take(t.Name()))
			return
		}
		record("ran", r.Version, t.Name(), "")
	})
}

// record appends one line to the file that DDTOP_TEST_RECORD names.
func record(what, version, test, reason string) {
	appendLine("DDTOP_TEST_RECORD",
		strings.TrimSpace(strings.Join([]string{what, version, test, strings.ReplaceAll(reason, "\n", " ")}, " ")))
}

// appendLine appends a line to the file that an environment variable names. It does nothing if the variable is not set.
// The line is written at once with O_APPEND, so that the test binaries of several packages can share the file. Errors
// are printed on stderr: the lines are counted later, and a missing one would make the count wrong.
func appendLine(variable, line string) {
	path := env(variable)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "rubytest: %s: %v\n", variable, err)
	}
}

// Report adds a line to the report of `make verify` and to the test's log. The line says what was measured, with its
// unit and the bound that it must keep. DDTOP_TEST_REPORT names the report's file.
func Report(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	appendLine("DDTOP_TEST_REPORT", t.Name()+": "+strings.ReplaceAll(line, "\n", " "))
}
