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

// reasons keeps the reason why each test was skipped, by test name, because testing.T has no method that returns it.
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

// recorded has the pairs of test and Ruby that are already in the record of the tests that ran. A test may start many
// programs, but is recorded only once for each Ruby.
var recorded sync.Map

// recordAtEnd writes a record of the test when the test ends: whether the test ran on the Ruby r or was skipped. If a
// test calls it several times for one Ruby, one record is written.
func recordAtEnd(t testing.TB, r Ruby) {
	type pair struct{ test, ruby string }
	key := pair{t.Name(), r.Name}
	if _, already := recorded.LoadOrStore(key, true); already {
		return
	}
	t.Cleanup(func() {
		recorded.Delete(key) // with -count, the same test runs again and needs a record again
		if t.Skipped() {
			record("skip", r.Version, t.Name(), skipReasons.take(t.Name()))
			return
		}
		record("ran", r.Version, t.Name(), "")
	})
}

// record appends one line about a test to the file that DDTOP_TEST_RECORD names.
func record(what, version, test, reason string) {
	appendLine("DDTOP_TEST_RECORD",
		strings.TrimSpace(strings.Join([]string{what, version, test, strings.ReplaceAll(reason, "\n", " ")}, " ")))
}

// appendLine appends a line to the file that an environment variable names. It does nothing if the variable is not set.
// It writes the line in one write with O_APPEND, because the test binaries of several packages share the file. It
// prints errors on stderr, because a missing line would make later counts wrong.
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
// unit and the bound within which it must be. DDTOP_TEST_REPORT names the report's file.
func Report(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	appendLine("DDTOP_TEST_REPORT", t.Name()+": "+strings.ReplaceAll(line, "\n", " "))
}
