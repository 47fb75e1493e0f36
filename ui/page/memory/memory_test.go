package memory

import (
	"slices"
	"testing"
)

// TestSmallTerminalsKeepWhatTellsMost: if there are too few rows for all figures, the less important ones are left out.
// The first figure and PSS must stay.
func TestSmallTerminalsKeepWhatTellsMost(t *testing.T) {
	all := []figure{{Name: "collections"}, {Name: "last collection"}, {Name: "phase"}, {Name: "slots free"}, {Name: "malloc increase"}, {Name: "old malloc"},
		{Name: "old objects"}, {Name: "unprotected"}, {Name: "survived"}, {Name: "RSS grew by"}, {Name: "major faults"}, {Name: "PSS"}, {Name: "CPU"}, {Name: "context switches"},
		{Name: "new objects"}, {Name: "memory pressure"}}
	for rows := range len(all) + 2 {
		got := fitFigures(slices.Clone(all), rows)
		if len(got) > max(rows, len(all)-len(leastTelling)) || len(got) < min(rows, len(all)) {
			t.Errorf("%d figures in %d rows", len(got), rows)
		}
		if got[0].Name != "collections" || !slices.ContainsFunc(got, func(f figure) bool { return f.Name == "PSS" }) {
			t.Errorf("in %d rows: %v", rows, got)
		}
	}
}
