// Package rerun lets a test say whether a single failure of it may be the machine's. scripts/test runs such a test again,
// alone, and reports one that then passes as flaky, with what its first run said; any other failure stands as it is.
//
// A test that says nothing is never run again. rubytest says Process for each test that it gives a Ruby to: whether it passes
// depends on when the machine lets that process, ddtop and the test run. Never takes this back for a test that compares
// something exactly, so that one failure proves a defect whatever the machine did: golden files do so by themselves.
//
// What is said of a test holds for its subtests. It travels as an attribute of the test (testing.TB.Attr) in the events of
// `go test -json`, which internal/testsummary reads.
package rerun

import (
	"strings"
	"testing"
)

// Key is the attribute's name. Its value is ByProcess, or the reason given to Never behind ByNever.
const Key = "ddtop-rerun"

// The values of the attribute.
const (
	ByProcess = "process"
	ByNever   = "never:"
)

// Process says that the test watches a real process.
func Process(t testing.TB) {
	t.Helper()
	t.Attr(Key, ByProcess)
}

// Never says that one failure of the test proves a defect, and why: a few words that are printed beside the failure.
func Never(t testing.TB, why string) {
	t.Helper()
	t.Attr(Key, ByNever+strings.Join(strings.Fields(why), " "))
}
