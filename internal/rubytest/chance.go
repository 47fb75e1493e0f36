package rubytest

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// A chance keeps the failures that TooSeldom reports in one test, until the test's end.
type chance struct {
	mu       sync.Mutex
	failures []string
}

// chances has the chance of each running test that called OftenEnough. The key is the test's name.
var chances sync.Map

// OftenEnough is for a test that must see something often enough within a time, in a program with races. It must be the
// first call of the test. If TooSeldom is called in the test or its subtests, this failure is reported only at the end
// of the test. If the test had no other failure, scripts/test may run it a second time, alone.
//
// All other failures (an impossible stack, a wrong value, a leak) are reported through testing.T as usual. The test
// does not run again after them.
func OftenEnough(t *testing.T) {
	t.Helper()
	if strings.Contains(t.Name(), "/") {
		t.Fatal("OftenEnough is for whole tests, not for subtests")
	}
	held := &chance{}
	chances.Store(t.Name(), held)
	// Cleanups run in reverse order. This cleanup is registered first, so it runs after the test's subtests and after
	// all other cleanups.
	t.Cleanup(func() {
		chances.Delete(t.Name())
		if len(held.failures) == 0 {
			return
		}
		if !t.Failed() {
			record("seldom", testedPackage(), t.Name(), "")
		}
		for _, failure := range held.failures {
			t.Error(failure)
		}
	})
}

// TooSeldom reports that the test did not see something often enough, and lets the test continue. In a test that has
// not called OftenEnough, it is the same as t.Errorf.
func TooSeldom(t testing.TB, format string, args ...any) {
	t.Helper()
	if !holdSeldom(t, fmt.Sprintf(format, args...)) {
		t.Errorf(format, args...)
	}
}

// TooSeldomNow is like TooSeldom, but also ends the test or subtest. If it ends a subtest, go test reports the subtest
// as skipped. The test that contains the subtest fails.
func TooSeldomNow(t testing.TB, format string, args ...any) {
	t.Helper()
	if holdSeldom(t, fmt.Sprintf(format, args...)) {
		// FailNow would mark the test as failed. Then OftenEnough could not see whether the test also failed for
		// another reason.
		Skip(t, "failed: "+format, args...)
	}
	t.Fatalf(format, args...)
}

// holdSeldom keeps a failure of the kind "seen too seldom" until the end of the test. It returns false if the test has
// not called OftenEnough. The caller must then report the failure itself.
func holdSeldom(t testing.TB, failure string) bool {
	whole, sub, _ := strings.Cut(t.Name(), "/")
	held, ok := chances.Load(whole)
	if !ok {
		return false
	}
	t.Log("too seldom: " + failure)
	if sub != "" {
		failure = sub + ": " + failure
	}
	c := held.(*chance)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, failure)
	return true
}

// testedPackage returns the import path of the package whose tests run.
var testedPackage = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.TrimSuffix(info.Path, ".test")
})
