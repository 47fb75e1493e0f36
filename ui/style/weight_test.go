package style

import (
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
)

func TestRoundingOfEstimates(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 9: 9, 99: 99, 101: 100, 149: 150, 8594752: 8600000, 995: 1000, 123456789012: 120000000000} {
		if got := roundTo2(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	if got := Measure(flamegraph.Allocations, 8594752); got != "≈8,600,000 objects" {
		t.Error(got)
	}
}
