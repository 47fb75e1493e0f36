package exact

import (
	"runtime"
	"testing"

	"github.com/ddtop/ddtop/internal/cli/flags"
)

// TestExactUntried: DDTOP_EXACT_UNTRIED allows exact mode on an untested architecture only if its value is the name of
// this architecture.
func TestExactUntried(t *testing.T) {
	for value, want := range map[string]bool{"": false, "1": false, "all": false, "aarch64": false, "arm64,amd64": false, runtime.GOARCH: true} {
		t.Setenv("DDTOP_EXACT_UNTRIED", value)
		for _, f := range []Flags{{}, {cost: flags.Overhead{Share: 0.1}}} {
			if got := f.options().Untried; got != want {
				t.Errorf("DDTOP_EXACT_UNTRIED=%q: %t", value, got)
			}
		}
	}
}
