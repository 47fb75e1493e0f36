package ui

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/style"
)

// TestAllocationsSayThatTheyAreAnEstimate, in every place that shows them, and how good it is.
func TestAllocationsSayThatTheyAreAnEstimate(t *testing.T) {
	s := hogged(t, 160, 50)
	est := s.model.weights.Allocations()
	if !est.Enough() {
		t.Fatalf("%+v", est)
	}
	s.press("w", "w", "w", "w")
	if s.model.flame.metric != flamegraph.Allocations {
		t.Fatalf("%v", s.model.flame.metric)
	}
	s.sees("allocation · estimate ±", "JSON::Ext::Generator#generate")
	s.press("tab", "down")
	s.sees(" objects", "≈")
	s.press("4")
	s.sees("allocation · estimate ±")
	s.press("5", "down")
	s.sees("functions by self · allocation, estimate ±", "self ≈", "objects  total ≈")
	s.press("4", "w")
	s.sees("wall time")
	s.misses("estimate")
}

// TestTooFewAllocationsAreNoShares: nothing is drawn as if it were known.
func TestTooFewAllocationsAreNoShares(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 400 * time.Millisecond}, Options{})
	if est := s.model.weights.Allocations(); est.Ticks == 0 || est.Enough() {
		t.Fatalf("%+v", est)
	}
	s.press("4", "w", "w", "w", "w")
	s.sees("allocation · too few seen", "100 are needed to tell by whom")
	s.misses("Server#handle")
	s.press("down", "5", "down")
	s.sees("too few seen", "100 are needed to tell by whom")
	s.misses("Server#handle", "made others wait")
}

func TestRoundingOfEstimates(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 9: 9, 99: 99, 101: 100, 149: 150, 8594752: 8600000, 995: 1000, 123456789012: 120000000000} {
		if got := style.RoundTo2(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	if got := style.Measure(flamegraph.Allocations, 8594752); got != "≈8,600,000 objects" {
		t.Error(got)
	}
}
