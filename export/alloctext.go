package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// These are limits of the text that lists the classes with the most new objects.
const (
	// maxAllocText limits how many classes are named.
	maxAllocText = 8
	// minAllocInstants is how often ddtop must have counted the new objects by class before the text prints shares.
	// Shares from fewer counts are unreliable.
	minAllocInstants = 20
)

// statAlloc writes which classes have most of the new objects.
func statAlloc(b *strings.Builder, a *report.StatAlloc) {
	if a.Instants < minAllocInstants {
		return
	}
	var parts []string
	for _, c := range a.Classes[:min(len(a.Classes), maxAllocText)] {
		if c.Share < SmallShare {
			break
		}
		text := units.Percent(c.Share) + " " + flamegraph.Printable(c.Name)
		if c.Error != nil {
			text += fmt.Sprintf(" (± %.1f)", 100**c.Error)
		}
		parts = append(parts, text)
	}
	fmt.Fprintf(b, "     new objects, estimated at %d instants: %s\n", a.Instants, strings.Join(parts, ", "))
}
