package ruby

import (
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// typeCacheSize is the number of slots of the direct-mapped table of values whose type is known; a power of two.
const typeCacheSize = 1 << 12

// typeSlot keeps what a value was at a time when some thread's stack held it.
type typeSlot struct {
	value uint64
	// cycle is the number of collections at that time plus 1; 0: nothing is kept here.
	cycle collections
	name  string
}

// typeCycle is the cycle for which the types of values may be kept; 0: not now. An object that a stack holds while the
// collector does not mark lives at least until the next collection marks: what was allocated or marked is not swept before.
func typeCycle(gc *sampler.GC) collections {
	if !gc.Valid || gc.During || gc.Mode != sampler.GCIdle && gc.Mode != sampler.GCSweeping {
		return 0
	}
	return collections(gc.Count) + 1
}

// dataTypeNames is DataTypeName for several values at once, with as many reads as one needs: names[i] is the name of
// values[i]'s type, "" when it is not a typed data object or can't be read. The values are those of a stack just read: what
// they are is kept until the next collection.
func (d *Decoder) dataTypeNames(values []uint64, names []string) {
	cycle := typeCycle(&d.gcNow)
	slot := func(v uint64) *typeSlot { return &d.typeCache[(v>>3^v>>15)%typeCacheSize] }
	known := true
	for i, v := range values {
		names[i] = ""
		if !d.isHeap(v) {
			continue
		}
		if s := slot(v); cycle != 0 && s.value == v && s.cycle == cycle {
			names[i] = s.name
			continue
		}
		known = false
	}
	if known {
		return
	}
	d.view.Reset()
	// What can't be read stays without a name; the error of settle is that of the target and shows at the next tick.
	_ = d.view.Settle(func() error {
		var missing error
		for i, v := range values {
			names[i] = ""
			if !d.isHeap(v) {
				continue
			}
			name, err := d.dataTypeName(v)
			if err == view.ErrMissing {
				missing = err
				continue
			}
			if err == nil {
				names[i] = name
			}
			if _, other := err.(*wrongTypeError); cycle != 0 && (err == nil || other) {
				*slot(v) = typeSlot{v, cycle, names[i]}
			}
		}
		return missing
	})
}
