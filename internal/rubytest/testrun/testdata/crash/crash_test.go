// Package crash has a test that ends the whole run.
package crash

import (
	"os"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

func TestSeldomAndACrash(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.TooSeldom(t, "seen once")
	os.Exit(3)
}
