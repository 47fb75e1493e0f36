package scene

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/store"
)

// TestWaitsInWords: of some waits, only a bound of the length is known. The text of an upper bound has the sign ≤, and
// the text of a lower bound has ≥.
func TestWaitsInWords(t *testing.T) {
	f := Figures{}
	if f.WaitText(store.WaitP99) != "–" || f.WaitsText() != "" {
		t.Errorf("%q %q", f.WaitText(store.WaitP99), f.WaitsText())
	}
	f.Waits, f.WaitLengths = 1200, [len(store.WaitShares)]gvl.Bounded{{NS: 1e6}, {NS: 2e6}, {NS: 30e6}, {NS: 400e6}}
	if got := f.WaitsText(); got != "1,200 waits: p50 1.0 ms  p90 2.0 ms  p99 30 ms  max 400 ms" {
		t.Error(got)
	}
	f.WaitLengths[store.WaitP99].Bound, f.WaitLengths[store.WaitMax].Bound = gvl.AtMost, gvl.AtLeast
	if got := f.WaitText(store.WaitP99) + f.WaitText(store.WaitMax); got != "≤30 ms≥400 ms" {
		t.Error(got)
	}
}
