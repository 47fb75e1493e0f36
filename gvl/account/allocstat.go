package account

import (
	"cmp"
	"math"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// MaxStatClasses limits how many classes a Stat names.
const MaxStatClasses = 30

// AllocOf returns what was allocated between two estimates, by class. If earlier is nil, it returns what was allocated
// since ddtop attached to the process.
func AllocOf(earlier, later *sampler.AllocClasses) report.StatAlloc {
	shares, instants := later.Since(earlier)
	sorting.By(shares, func(a, b sampler.AllocShare) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name))
	})
	out := report.StatAlloc{Instants: instants, Classes: []report.StatAllocClass{}}
	for _, s := range shares[:min(len(shares), MaxStatClasses)] {
		c := report.StatAllocClass{Name: s.Name, Objects: math.Round(s.Objects), Share: s.Share}
		if !math.IsNaN(s.Error) {
			c.Error = &s.Error
		}
		out.Classes = append(out.Classes, c)
	}
	return out
}
