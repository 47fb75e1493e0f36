package sampler

import "math"

// MaxAllocClasses bounds the classes of an AllocClasses. The classes that are seen first are kept, which usually have
// most objects. Objects of all other classes are counted under AllocOthers.
const MaxAllocClasses = 400

// Names in an AllocClasses that are no class.
const (
	// AllocInternal: the interpreter's own objects (imemo, nodes).
	AllocInternal = "(internal)"
	// AllocHidden: objects without a class that Ruby code can reach.
	AllocHidden = "(hidden)"
	// AllocAnonymous: of classes without a name.
	AllocAnonymous = "(anonymous)"
	// AllocUnknown: the class could not be read.
	AllocUnknown = "(unknown)"
	// AllocOthers: of classes beyond MaxAllocClasses.
	AllocOthers = "(others)"
)

// AllocClasses estimates how many objects of each class were allocated since the attach. At certain instants ddtop
// reads the newest objects of the heap page that is being filled. It divides the growth of the exact counter since the
// last instant among the classes of these objects (docs/internals/gc.md#which-classes). All figures only grow, so the
// difference of two AllocClasses is what was allocated between them. An AllocClasses does not change after it was
// delivered.
type AllocClasses struct {
	// Instants is the number of samples of new objects, Seen the number of objects in them.
	Instants, Seen uint64
	// Objects is the sum of all classes. Each instant stands for a number of objects. Squares is the sum of the
	// squares of these numbers.
	Objects, Squares float64
	Classes          []AllocClass
}

// AllocClass is one class's part.
type AllocClass struct {
	Name    string
	Objects float64
	// Squares and Products are for the error of a share. At each instant a class has a part of all new objects.
	// Squares is the sum of the squares of these parts. Products is the sum of each part times all objects of its
	// instant.
	Squares, Products float64
}

// AllocShare is one class's estimated share of the allocations in an interval.
type AllocShare struct {
	Name string
	// Objects is their number, Share (0 to 1) their part of all.
	Objects, Share float64
	// Error is the half width of the share's 95 % confidence interval, from how much the instants differ; NaN under 2.
	Error float64
}

// Since returns what was allocated by class since an earlier estimate. It counts from the attach if earlier is nil.
// The shares are in no order. instants is the number of instants that they are estimated from.
func (a *AllocClasses) Since(earlier *AllocClasses) (shares []AllocShare, instants uint64) {
	if a == nil {
		return nil, 0
	}
	if earlier == nil {
		earlier = &AllocClasses{}
	}
	instants = a.Instants - earlier.Instants
	all, squares := a.Objects-earlier.Objects, a.Squares-earlier.Squares
	if instants == 0 || all <= 0 {
		return nil, 0
	}
	before := make(map[string]AllocClass, len(earlier.Classes))
	for _, c := range earlier.Classes {
		before[c.Name] = c
	}
	for _, c := range a.Classes {
		b := before[c.Name]
		n := c.Objects - b.Objects
		if n <= 0 {
			continue
		}
		share := n / all
		// The variance of a ratio of sums: the squares of what each instant deviates from the share by (Cochran,
		// Sampling Techniques, section 6.3). The 95 % quantile is the normal distribution's.
		v := (c.Squares - b.Squares) - 2*share*(c.Products-b.Products) + share*share*squares
		s := AllocShare{Name: c.Name, Objects: n, Share: share, Error: math.NaN()}
		if instants >= 2 {
			s.Error = 1.96 * math.Sqrt(max(0, v)*float64(instants)/float64(instants-1)) / all
		}
		shares = append(shares, s)
	}
	return shares, instants
}
