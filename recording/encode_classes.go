package recording

import (
	"fmt"
	"math"

	"github.com/ddtop/ddtop/sampler"
)

// Allocations by class are an estimate (sampler.AllocClasses), so their figures are rounded before they are written: numbers of
// objects to objectParts, the sums of squares, which tell how good the estimate is, to what a float32 holds. It is the
// values that are rounded and not the differences: nothing drifts, and a class that nothing is allocated of does not move.
const objectParts = 1024

// maxObjects bounds a number of objects, in parts: beyond it a sum in float64 would have lost them anyway.
const maxObjects = 1 << 62

// classFigures are the figures of one class, or of all together, as they are written.
type classFigures struct {
	objects           int64  // in parts
	squares, products uint32 // bits of a float32
}

// classState is the estimate that the next one is written as the difference to.
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

// checkClasses refuses what could not be read again.
func checkClasses(a *sampler.AllocClasses) error {
	if a != nil && len(a.Classes) > sampler.MaxAllocClasses {
		return fmt.Errorf("%w: allocations of %d classes in a sample", errLimit, len(a.Classes))
	}
	return nil
}

// allocClasses writes an estimate: how many classes, one added (0: there is none), the totals, and each class in its order. A
// class is one of the estimate before, with how far it has moved in the list, or a new one, with its name. Then come the
// differences of its figures, unless it has not changed.
func (e *encoder) allocClasses(a *sampler.AllocClasses) {
	e.sample.Classes = a
	st := &e.classes
	if a == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(a.Classes)) + 1)
	e.uint(a.Instants - st.instants)
	e.uint(a.Seen - st.seen)
	st.instants, st.seen = a.Instants, a.Seen
	e.classFigures(&st.all, figuresOf(a.Objects, a.Squares, 0))
	if st.byName == nil {
		st.byName = make(map[string]int)
	}
	clear(st.byName)
	for i := range st.classes {
		st.byName[st.classes[i].name] = i
	}
	list := st.spare[:0]
	for i := range a.Classes {
		c := &a.Classes[i]
		now, was := figuresOf(c.Objects, c.Squares, c.Products), classEntry{name: c.Name}
		from, known := st.byName[c.Name]
		if known {
			was = st.classes[from]
			e.uint(classRef(from-i, now != was.classFigures))
		} else {
			e.uint(0)
			e.text(c.Name)
		}
		if !known || now != was.classFigures {
			e.classFigures(&was.classFigures, now)
		}
		list = append(list, was)
	}
	st.classes, st.spare = list, st.classes
}

// classRef says how far a class has moved in the list, and whether its figures have changed; 0 is a new one.
func classRef(moved int, changed bool) uint64 {
	return (zigzag(int64(moved))<<1 | bit(changed, 1)) + 1
}

func (e *encoder) classFigures(was *classFigures, now classFigures) {
	e.count(now.objects - was.objects)
	e.count(int64(now.squares) - int64(was.squares))
	e.count(int64(now.products) - int64(was.products))
	*was = now
}

// allocClasses reads an estimate. Each is a new one, because those before may have been kept.
func (d *decoder) allocClasses() *sampler.AllocClasses {
	c, st := &d.c, &d.classes
	n := c.count(sampler.MaxAllocClasses+1, 1)
	if n == 0 || c.err != nil {
		return nil
	}
	st.instants += c.uint()
	st.seen += c.uint()
	d.classFigures(&st.all)
	list := st.spare[:0]
	out := &sampler.AllocClasses{Instants: st.instants, Seen: st.seen, Classes: make([]sampler.AllocClass, 0, n-1)}
	out.Objects, out.Squares, _ = st.all.values()
	for i := range n - 1 {
		x, changed := classEntry{}, true
		if ref := c.uint(); ref == 0 {
			x.name = d.text()
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
			d.classFigures(&x.classFigures)
		}
		if d.err() != nil {
			return nil
		}
		list = append(list, x)
		a := sampler.AllocClass{Name: x.name}
		a.Objects, a.Squares, a.Products = x.values()
		out.Classes = append(out.Classes, a)
	}
	st.classes, st.spare = list, st.classes
	return out
}

func (d *decoder) classFigures(f *classFigures) {
	f.objects += d.counts.int()
	f.squares = d.float(f.squares)
	f.products = d.float(f.products)
	if f.objects < 0 || f.objects > maxObjects {
		d.counts.fail("a number of objects that can't be")
	}
}

// float reads the bits of a float32 as the difference to the ones before: finite and not negative.
func (d *decoder) float(was uint32) uint32 {
	n := int64(was) + d.counts.int()
	if n < 0 || n >= int64(math.Float32bits(float32(math.Inf(1)))) {
		d.counts.fail("a sum of squares that can't be")
		return was
	}
	return uint32(n)
}
