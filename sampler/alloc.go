package sampler

import "math"

// MaxAllocClasses limits how many classes an AllocClasses lists. It lists the classes that are seen first, because they
// usually have most objects. The objects of all other classes are counted together as AllocOthers.
const MaxAllocClasses = 400

// These are values of AllocClass.Name and HeapKind.Name that are not names of classes.
const (
	// AllocInternal is the name for objects that the interpreter makes for itself (imemo, nodes).
	AllocInternal = "(internal)"
	// AllocHidden stands for objects that have no class, so Ruby code cannot reach them.
	AllocHidden = "(hidden)"
	// AllocAnonymous stands for objects of classes without a name.
	AllocAnonymous = "(anonymous)"
	// AllocUnknown stands for objects whose class could not be read.
	AllocUnknown = "(unknown)"
	// AllocOthers stands for the objects of all classes that are not listed because the limit MaxAllocClasses is
	// reached.
	AllocOthers = "(others)"
)

// AllocClasses estimates how many objects of each class were allocated since the attach. At certain instants ddtop
// reads the newest objects of the heap page that is being filled. Ruby's counter of allocated objects is exact. Its
// growth since the last instant is divided among the classes of these newest objects
// (docs/internals/gc.md#which-classes). All figures only grow, so the difference of two AllocClasses is what was
// allocated between them. An AllocClasses does not change after it was delivered.
type AllocClasses struct {
	// Instants is how often new objects were read since the attach. Seen is how many objects were read at all these
	// instants together.
	Instants, Seen uint64
	// Objects is the estimated number of new objects of all classes. It is a sum with one term for each instant.
	// Squares is the sum of the squares of these terms. AllocShare.Error is computed from Squares.
	Objects, Squares float64
	Classes          []AllocClass
}

// AllocClass has the figures of one class in an AllocClasses.
type AllocClass struct {
	Name    string
	Objects float64
	// AllocShare.Error is computed from Squares and Products. Let n be the number of new objects that one instant
	// stands for, and x the part of them that belongs to this class. Squares is the sum of x² over all instants,
	// Products the sum of x·n.
	Squares, Products float64
}

// AllocShare is one class's estimated share of the allocations in an interval.
type AllocShare struct {
	Name string
	// Objects is the estimated number of new objects. Share is their part of all new objects, from 0 to 1.
	Objects, Share float64
	// Error is half the width of the share's 95 % confidence interval. It is NaN if there are fewer than two instants.
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
		// v is the variance of a ratio of sums (Cochran, Sampling Techniques, section 6.3): the sum over all instants
		// of the squared deviation from the share. The factor for 95 % is the quantile of the normal distribution.
		v := (c.Squares - b.Squares) - 2*share*(c.Products-b.Products) + share*share*squares
		s := AllocShare{Name: c.Name, Objects: n, Share: share, Error: math.NaN()}
		if instants >= 2 {
			s.Error = 1.96 * math.Sqrt(max(0, v)*float64(instants)/float64(instants-1)) / all
		}
		shares = append(shares, s)
	}
	return shares, instants
}
