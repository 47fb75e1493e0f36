package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// IsQueue reports whether typ, a name from DataTypeName, is the type of a Queue or SizedQueue. The struct of a
// SizedQueue begins with an rb_queue.
func IsQueue(typ string) bool { return typ == "queue" || typ == "sized_queue" }

// IsQueue reports whether an object is a Queue or SizedQueue. Call it in a function that Read calls.
func (o *Objects) IsQueue(v uint64) (bool, error) {
	header, err := o.dataHeader(v, "Queue")
	if err != nil {
		return false, err
	}
	if _, typed := o.places.DataType(header); !typed {
		return false, nil
	}
	name, err := o.dataTypeName(v)
	return IsQueue(name), err
}

// Length returns the number of elements of an Array, a Queue or a SizedQueue. Call it in a function that Read calls.
func (o *Objects) Length(v uint64) (int64, error) {
	flags, err := o.Flags(v)
	if err != nil {
		return 0, err
	}
	if flags&TypeMask == TypeArray {
		_, n, err := o.Array(v)
		return int64(n), err
	}
	name, err := o.dataTypeName(v)
	if err != nil {
		return 0, err
	}
	if !IsQueue(name) {
		return 0, WrongType(attach.Address(v), "Queue", flags)
	}
	header, err := o.dataHeader(v, "Queue")
	if err != nil {
		return 0, err
	}
	data, p := o.places.Data(attach.Address(v), header), o.places
	switch {
	case p.queueLength >= 0:
		b, err := o.View.Bytes(data, p.queueLength+8)
		if err != nil {
			return 0, err
		}
		return int64(view.U64(b[p.queueLength:])), nil
	case p.queueItems >= 0:
		b, err := o.View.Bytes(data, p.queueItems+8)
		if err != nil {
			return 0, err
		}
		_, n, err := o.Array(view.U64(b[p.queueItems:]))
		return int64(n), err
	}
	return 0, fmt.Errorf("the length of the Queue at %#x: the layout of Queues is not known", v)
}
