package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// typeCacheSize is the largest number of slots of typeCache. It is a power of two.
const typeCacheSize = 1 << 12

// typeSlot caches the type of a value that was read from a thread's stack.
type typeSlot struct {
	value uint64
	// cycle is the cycle of the collector (typeCycle) in which the value was read. It is zero if the slot is empty.
	cycle uint64
	name  string
}

// typeCycle returns the collector's cycle in which the types of values on stacks can be cached. It returns zero if they
// cannot be cached. While the collector does not mark, an object on a stack lives at least until the next marking. The
// reason is that sweeping never frees objects that were allocated or marked since the last marking.
func typeCycle(gc *sampler.GC) uint64 {
	if !gc.Valid || gc.During || gc.Mode != sampler.GCIdle && gc.Mode != sampler.GCSweeping {
		return 0
	}
	return gc.Count + 1
}

// DataTypeNames does the same as DataTypeName for several values, with as few system calls as for one value. A name is
// empty if its value is not a typed data object or cannot be read. The values must come from a stack that was just
// read. The objects on this stack, and so their types, stay the same until the next collection.
func (o *Objects) DataTypeNames(values []uint64, names []string) {
	cycle := typeCycle(&o.gc)
	hash := func(v uint64) uint64 { return v>>3 ^ v>>15 }
	known := true
	for i, v := range values {
		names[i] = ""
		if !o.IsObject(v) {
			continue
		}
		if s := o.typeCache.At(hash(v)); cycle != 0 && s.value == v && s.cycle == cycle {
			names[i] = s.name
			continue
		}
		known = false
	}
	if known {
		return
	}
	// Ignore the error, because a value that cannot be read gets no name. If the whole target cannot be read, the next
	// tick reports this.
	_ = o.Read(func() error {
		var missing error
		for i, v := range values {
			names[i] = ""
			if !o.IsObject(v) {
				continue
			}
			name, err := o.dataTypeName(v)
			if err == view.ErrMissing {
				missing = err
				continue
			}
			if err == nil {
				names[i] = name
			}
			if _, other := err.(*wrongTypeError); cycle != 0 && (err == nil || other) {
				s := o.typeCache.At(hash(v))
				if s.cycle == cycle && s.value != v {
					s = o.typeCache.Lose(hash(v), typeCacheSize)
				}
				*s = typeSlot{v, cycle, names[i]}
			}
		}
		return missing
	})
}

// DataTypeName returns the name that C code gave to the type of a T_DATA object, such as "mutex", "VM/thread" or
// "queue". A T_DATA object holds data of C code. DataTypeName returns "" for other objects, or if value cannot be read.
// Names are cached by the address of the type, because types are static.
func (o *Objects) DataTypeName(value uint64) string {
	var name string
	err := o.Read(func() (err error) {
		name, err = o.dataTypeName(value)
		return err
	})
	if err != nil {
		return ""
	}
	return name
}

func (o *Objects) dataTypeName(v uint64) (string, error) {
	b, err := o.dataHeader(v, "typed data")
	if err != nil {
		return "", err
	}
	typ, ok := o.places.DataType(b)
	if !ok {
		return "", WrongType(attach.Address(v), "typed data", view.U64(b))
	}
	return o.typeName(typ)
}

// typeName returns the name of a data type, and caches it.
func (o *Objects) typeName(typ attach.Address) (string, error) {
	if name, ok := o.typeNames[typ]; ok {
		return name, nil
	}
	at, err := o.View.Word(typ)
	if err != nil {
		return "", err
	}
	name, err := o.cString(attach.Address(at), maxCString)
	if err != nil {
		return "", err
	}
	if len(o.typeNames) < maxTypeNames {
		o.typeNames[typ] = name
	}
	return name, nil
}

// TypeNames returns the names of data types, with as few system calls as for one name. A name is empty if it cannot be
// read.
func (o *Objects) TypeNames(types []attach.Address) []string {
	names := make([]string, len(types))
	// Ignore the error, because a type that cannot be read gets no name. If the whole target cannot be read, the next
	// read reports this.
	_ = o.Read(func() (missing error) {
		for i, typ := range types {
			name, err := o.typeName(typ)
			if err == view.ErrMissing {
				missing = err
			}
			names[i] = name
		}
		return missing
	})
	return names
}

func (o *values) dataHeader(v uint64, want string) ([]byte, error) {
	if !o.IsObject(v) {
		return nil, WrongType(attach.Address(v), want, NotHeap)
	}
	b, err := o.View.Bytes(attach.Address(v), DataHeader)
	if err == nil && view.U64(b)&TypeMask != TypeData {
		err = WrongType(attach.Address(v), want, view.U64(b))
	}
	return b, err
}

// DataHeader is how many bytes at the beginning of a T_DATA object are needed to find its type and its data.
const DataHeader = 40

// DataType returns the address of the type of a T_DATA object (an object with data of C code), from the object's
// header. ok is false for other objects, and for an untyped T_DATA object.
func (p *Places) DataType(header []byte) (typ attach.Address, ok bool) {
	if view.U64(header)&TypeMask != TypeData {
		return 0, false
	}
	// An untyped RData has function pointers in place of the type and the flag.
	if p.typedFlag >= 0 {
		if f := view.U64(header[p.typedFlag:]); f == 0 || f > 3 {
			return 0, false
		}
	}
	// The lowest bit is not a part of the address. It says that the data follows the header (4.0 and later).
	return attach.Address(view.U64(header[p.typedType:]) &^ 1), true
}

// Data returns the address of the data of a typed T_DATA object at addr, from the object's header. The header has a
// pointer to the data. If the data is embedded, it directly follows the header (TYPED_DATA_EMBEDDED in Ruby's
// rtypeddata.h).
func (p *Places) Data(addr attach.Address, header []byte) attach.Address {
	embedded := view.U64(header[p.typedType:])&1 != 0
	if p.typedFlag >= 0 {
		embedded = view.U64(header[p.typedFlag:])&2 != 0
	}
	if embedded {
		return addr + attach.Address(p.typedData)
	}
	return attach.Address(view.U64(header[p.typedData:]))
}
