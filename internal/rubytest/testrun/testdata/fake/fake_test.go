// Package fake has a test that fails in each way. TestCount runs it.
package fake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// first reports whether the test runs for the first time. In each run, it appends one byte to the file that is named
// after the test.
func first(t *testing.T) bool {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	path := filepath.Join(os.Getenv("DDTOP_TEST_FAKE"), name)
	before, _ := os.ReadFile(path)
	if err := os.WriteFile(path, append(before, '.'), 0o600); err != nil {
		t.Fatal(err)
	}
	return len(before) == 0
}

func TestPasses(t *testing.T) { first(t) }

func TestSkips(t *testing.T) {
	first(t)
	t.Skip()
}

func TestFails(t *testing.T) {
	if first(t) {
		t.Error("a wrong value")
	}
}

func TestSeldomOnce(t *testing.T) {
	rubytest.OftenEnough(t)
	if first(t) {
		rubytest.TooSeldom(t, "seen %d times", 3)
	}
}

func TestSeldomOnceInASubtest(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Run("sub", func(t *testing.T) {
		t.Parallel()
		if first(t) {
			rubytest.TooSeldomNow(t, "seen %d times", 2)
			t.Error("the subtest went on")
		}
	})
}

func TestSeldomTwice(t *testing.T) {
	rubytest.OftenEnough(t)
	first(t)
	rubytest.TooSeldomNow(t, "never seen")
	t.Error("the test went on")
}

func TestSeldomNotDeclared(t *testing.T) {
	if first(t) {
		rubytest.TooSeldom(t, "seen once")
	}
}

func TestSeldomNowNotDeclared(t *testing.T) {
	if first(t) {
		rubytest.TooSeldomNow(t, "seen once")
	}
}

func TestNever(t *testing.T) {
	rubytest.OftenEnough(t)
	if first(t) {
		t.Error("an impossible stack")
	}
}

func TestNeverAndSeldom(t *testing.T) {
	rubytest.OftenEnough(t)
	if first(t) {
		t.Run("sub", func(t *testing.T) { t.Error("an impossible stack") })
		rubytest.TooSeldom(t, "seen once")
	}
}

func TestSeldomAndALeak(t *testing.T) {
	rubytest.OftenEnough(t)
	if first(t) {
		t.Cleanup(func() { t.Error("a leak") })
		t.Run("sub", func(t *testing.T) { rubytest.TooSeldomNow(t, "seen once") })
	}
}

func TestLong(t *testing.T) {
	rubytest.Long(t)
	first(t)
}

func TestPartlyLong(t *testing.T) {
	for _, name := range []string{"short one", "long|one"} {
		t.Run(name, func(t *testing.T) {
			if name != "short one" {
				rubytest.Long(t)
			}
			first(t)
		})
	}
}
