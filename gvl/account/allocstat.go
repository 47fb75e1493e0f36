package account

import (
	"cmp"
	"math"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// StatAlloc is an estimate of what was allocated in the window, by class (sampler.AllocClasses). The number of all
// objects is known exactly: StatGC.Allocated.
type StatAlloc struct {
	// Instants is how often new objects were looked at; with few of them the shares say little.
	Instants uint64 `json:"instants"`
	// Classes are the classes that most objects were made of, most first, MaxStatClasses at most.
	Classes []StatAllocClass `json:"classes"`
}

// MaxStatClasses is how many classes a Stat names.
const MaxStatClasses = 30

// StatAllocClass is one class's part. Names in parentheses are not classes (sampler.AllocInternal and others).
type StatAllocClass struct {
	Name string `json:"name"`
	// Objects is the estimated number of objects. Share (0 to 1) is their part of all objects. Error is half the width
	// of the 95 % confidence interval of Share. It is null if the class was seen too rarely.
	Objects float64  `json:"objects"`
	Share   float64  `json:"share"`
	Error   *float64 `json:"error"`
}

// AllocOf is the estimate for the time between two samples' Classes, the earlier one nil for the attach.
func AllocOf(earlier, later *sampler.AllocClasses) StatAlloc {
	shares, instants := later.Since(earlier)
	slices.SortFunc(shares, func(a, b sampler.AllocShare) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name))
	})
	out := StatAlloc{Instants: instants, Classes: []StatAllocClass{}}
	for _, s := range shares[:min(len(shares), MaxStatClasses)] {
		c := StatAllocClass{Name: s.Name, Objects: math.Round(s.Objects), Share: s.Share}
		if !math.IsNaN(s.Error) {
			c.Error = &s.Error
		}
		out.Classes = append(out.Classes, c)
	}
	return out
}
