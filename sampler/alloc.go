package sampler

import "math"

// MaxAllocClasses limits how many classes an AllocClasses lists. It lists the first classes that ddtop sees, because
// these usually have the most objects. The objects of all other classes are counted together under the name
// AllocOthers.
const MaxAllocClasses = 400

// These names are used in AllocClass.Name and HeapKind.Name for objects that belong to no listed Ruby class.
const (
	// AllocInternal is the name for objects that Ruby's interpreter makes for its own use (imemo, nodes).
	AllocInternal = "(internal)"
	// AllocHidden is the name for objects that have no class. Ruby code cannot reach such objects.
	AllocHidden = "(hidden)"
	// AllocAnonymous is the name for objects whose class has no name, such as the result of Class.new.
	AllocAnonymous = "(anonymous)"
	// AllocUnknown is the name for objects whose class ddtop could not read.
	AllocUnknown = "(unknown)"
	// AllocOthers is the name for the objects of all classes that are not listed because the limit MaxAllocClasses is
	// reached.
	AllocOthers = "(others)"
)

// AllocClasses estimates how many objects of each class were allocated since ddtop attached to the process. Ruby's
// counter of allocated objects is exact, but does not know classes. So ddtop reads, at certain instants, the newest
// objects of the heap page that Ruby fills. It divides the counter's growth since the last instant among the classes of
// these objects (docs/internals/gc.md#which-classes).
//
// All figures only grow. So the difference of two AllocClasses is what was allocated between them. An AllocClasses does
// not change after it was delivered.
type AllocClasses struct {
	// Instants is the number of times that ddtop read new objects since it attached. Seen is the number of objects that
	// it read at all these instants together.
	Instants, Seen uint64
	// Objects is the estimated number of new objects of all classes. At each instant, ddtop adds the number of new
	// objects since the instant before. Squares is the sum of the squares of these numbers. AllocShare.Error is
	// computed from Squares.
	Objects, Squares float64
	Classes          []AllocClass
}

// AllocClass has the figures of one class in an AllocClasses.
type AllocClass struct {
	Name    string
	Objects float64
	// Squares and Products are used to compute AllocShare.Error. Let n be the number of new objects since the instant
	// before, and x the part of them that belongs to this class. Squares is the sum of x² over all instants, and
	// Products is the sum of x·n.
	Squares, Products float64
}

// AllocShare is one class's estimated share of all objects that were allocated in a period of time.
type AllocShare struct {
	Name string
	// Objects is the estimated number of new objects of the class. Share is Objects divided by the new objects of all
	// classes, from 0 to 1.
	Objects, Share float64
	// Error is half the width of the 95 % confidence interval of Share. It is NaN if the estimate is based on fewer
	// than two instants.
	Error float64
}

// Since returns the objects that were allocated since an earlier estimate, by class. If earlier is nil, it returns the
// objects since ddtop attached. The shares are in no order. instants is the number of instants on which the estimate is
// based.
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
		// v is the variance of a share, which is a ratio of two sums (Cochran, Sampling Techniques, section 6.3). v is
		// the sum of the squared deviations from the share at all instants. The factor 1.96 is the quantile of the
		// normal distribution for 95 %.
		v := (c.Squares - b.Squares) - 2*share*(c.Products-b.Products) + share*share*squares
		s := AllocShare{Name: c.Name, Objects: n, Share: share, Error: math.NaN()}
		if instants >= 2 {
			s.Error = 1.96 * math.Sqrt(max(0, v)*float64(instants)/float64(instants-1)) / all
		}
		shares = append(shares, s)
	}
	return shares, instants
}
