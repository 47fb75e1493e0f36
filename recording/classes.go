package recording

import (
	"fmt"
	"math"

	"github.com/ddtop/ddtop/sampler"
)

// The numbers of allocations by class are an estimate (sampler.AllocClasses), so they are rounded before they are
// written. Numbers of objects are rounded to 1/objectParts of an object, and the sums of squares to a float32. The file
// has the differences of rounded totals, so that rounding errors do not add up.
const objectParts = 1024

// maxObjects limits a number of objects, in units of 1/objectParts. In a larger number, a float64 could not represent
// single objects.
const maxObjects = 1 << 62

// classFigures are the written figures of one class, or of all classes together.
type classFigures struct {
	objects           int64  // in parts of an object: see objectParts
	squares, products uint32 // bits of a float32
}

// classState is the previous estimate of allocations by class in a block. The next estimate is written as the
// difference to it.
type classState struct {
	instants, seen uint64
	all            classFigures
	classes        []classEntry
	spare          []classEntry
	byName         map[string]int
}

type classEntry struct {
	name string
	classFigures
}

func partsOf(objects float64) int64 {
	return int64(math.Round(min(objects, maxObjects/objectParts) * objectParts))
}

func figuresOf(objects, squares, products float64) classFigures {
	float := func(v float64) uint32 { return math.Float32bits(float32(min(v, math.MaxFloat32))) }
	return classFigures{partsOf(objects), float(squares), float(products)}
}

func (f *classFigures) values() (objects, squares, products float64) {
	return float64(f.objects) / objectParts, float64(math.Float32frombits(f.squares)), float64(math.Float32frombits(f.products))
}

// checkClasses returns an error if a reader would refuse an estimate of allocations by class.
func checkClasses(a *sampler.AllocClasses) error {
	if a != nil && len(a.Classes) > sampler.MaxAllocClasses {
		return fmt.Errorf("%w: allocations of %d classes in a sample", errLimit, len(a.Classes))
	}
	return nil
}

// allocClasses writes or reads an estimate of allocations by class. First comes the number of classes plus one, or zero
// if there is no estimate. Then come the totals, and each class in order.
//
// A class of the previous estimate is written as the number of places that it has moved in the list. If its figures
// have changed, the differences follow. A new class has its name and its figures. When reading, allocClasses makes a
// new object, because callers may have kept the previous one.
func (w *wire) allocClasses(a *sampler.AllocClasses) *sampler.AllocClasses {
	c, st := &w.c, &w.classes
	var next sampler.AllocClasses
	n := 0
	if a != nil {
		next, n = *a, len(a.Classes)+1
	}
	if n = w.length(n, sampler.MaxAllocClasses+1, 1) - 1; n < 0 || c.err != nil {
		return nil
	}
	st.instants += w.uint(next.Instants - st.instants)
	st.seen += w.uint(next.Seen - st.seen)
	w.classFigures(&st.all, figuresOf(next.Objects, next.Squares, 0))
	if w.reading {
		a = &sampler.AllocClasses{Instants: st.instants, Seen: st.seen, Classes: make([]sampler.AllocClass, 0, n)}
		a.Objects, a.Squares, _ = st.all.values()
	} else {
		st.index()
	}
	list := st.spare[:0]
	for i := range n {
		var to classFigures
		x, ref := classEntry{}, uint64(0)
		if !w.reading {
			k := &next.Classes[i]
			x.name, to = k.Name, figuresOf(k.Objects, k.Squares, k.Products)
			if from, known := st.byName[k.Name]; known {
				ref = classRef(from-i, to != st.classes[from].classFigures)
			}
		}
		changed := true
		if ref = w.uint(ref); ref == 0 {
			x.name = w.text(x.name)
		} else {
			changed = (ref-1)&1 != 0
			from := int64(i) + unzigzag((ref-1)>>1)
			if c.err == nil && (from < 0 || from >= int64(len(st.classes))) {
				c.fail("a class that the one before does not have")
			}
			if c.err != nil {
				return nil
			}
			x = st.classes[from]
		}
		if changed {
			w.classFigures(&x.classFigures, to)
		}
		if w.err() != nil {
			return nil
		}
		list = append(list, x)
		if w.reading {
			k := sampler.AllocClass{Name: x.name}
			k.Objects, k.Squares, k.Products = x.values()
			a.Classes = append(a.Classes, k)
		}
	}
	st.classes, st.spare = list, st.classes
	return a
}

func (st *classState) index() {
	if st.byName == nil {
		st.byName = make(map[string]int)
	}
	clear(st.byName)
	for i := range st.classes {
		st.byName[st.classes[i].name] = i
	}
}

// classRef encodes two facts in one number: how far a class has moved in the list, and whether its figures have
// changed. The number 0 stands for a new class.
func classRef(moved int, changed bool) uint64 {
	return (zigzag(int64(moved))<<1 | bit(changed, 1)) + 1
}

func (w *wire) classFigures(f *classFigures, next classFigures) {
	f.objects += w.count(next.objects - f.objects)
	w.float(&f.squares, next.squares)
	w.float(&f.products, next.products)
	if w.reading && (f.objects < 0 || f.objects > maxObjects) {
		w.counts.fail("a number of objects that can't be")
	}
}

// float writes or reads the bits of a float32, as the difference to *f. The float32 must be finite and not negative.
func (w *wire) float(f *uint32, next uint32) {
	n := int64(*f) + w.count(int64(next)-int64(*f))
	if w.reading && (n < 0 || n >= int64(math.Float32bits(float32(math.Inf(1))))) {
		w.counts.fail("a sum of squares that can't be")
		return
	}
	*f = uint32(n)
}
