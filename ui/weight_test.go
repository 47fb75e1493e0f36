package ui

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestAllocationsSayThatTheyAreAnEstimate: each view that shows allocations must say that their numbers are an
// estimate, and how large the error may be.
func TestAllocationsSayThatTheyAreAnEstimate(t *testing.T) {
	s := hogged(t, 160, 50)
	est := s.model.Weights.Allocations()
	if !est.Enough() {
		t.Fatalf("%+v", est)
	}
	s.press("w", "w", "w", "w")
	if s.model.Flame.Metric != flamegraph.Allocations {
		t.Fatalf("%v", s.model.Flame.Metric)
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

// TestTooFewAllocationsAreNoShares: if ddtop has seen too few allocations, views must not show which share of them each
// function has.
func TestTooFewAllocationsAreNoShares(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 400 * time.Millisecond}, scene.Options{})
	if est := s.model.Weights.Allocations(); est.Ticks == 0 || est.Enough() {
		t.Fatalf("%+v", est)
	}
	s.press("4", "w", "w", "w", "w")
	s.sees("allocation · too few seen", "100 are needed to tell by whom")
	s.misses("Server#handle")
	s.press("down", "5", "down")
	s.sees("too few seen", "100 are needed to tell by whom")
	s.misses("Server#handle", "made others wait")
}
