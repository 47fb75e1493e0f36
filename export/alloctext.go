package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// Limits of the text about allocations by class.
const (
	// maxAllocText bounds the named classes.
	maxAllocText = 8
	// minAllocInstants is the number of instants below which nothing is printed, because the shares would mean
	// little.
	minAllocInstants = 20
)

// statAlloc names the classes that most objects were made of.
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
