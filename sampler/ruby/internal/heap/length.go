package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Offsets in rb_queue (thread_sync.c), the same on both machines. Ruby 2.5.4 to 4.0 has an Array there, 4.1 a capacity
// and a length.
const (
	queueArray                = 24
	queueCapacity, queueCount = 24, 32
)

// maxQueue bounds the capacity of a Queue of 4.1. No heap has an object at so low an address.
const maxQueue = 1 << 20

// IsQueue reports whether data objects of a type (DataTypeName) are Queues or SizedQueues. A SizedQueue begins with an
// rb_queue.
func IsQueue(typ string) bool { return typ == "queue" || typ == "sized_queue" }

// IsQueue reports, as a part of a question (Read), whether an object is a Queue or SizedQueue.
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

// Length returns the number of elements of an Array, a Queue or a SizedQueue, as a part of a question (Read).
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
	b, err := o.View.Bytes(o.places.Data(attach.Address(v), header), queueCount+8)
	if err != nil {
		return 0, err
	}
	capacity, n := view.U64(b[queueCapacity:]), view.U64(b[queueCount:])
	switch {
	case capacity > maxQueue: // it is an Array's address
		_, n, err := o.Array(view.U64(b[queueArray:]))
		return int64(n), err
	case n > capacity:
		return 0, fmt.Errorf("the Queue at %#x has room for %d elements and %d of them", v, capacity, n)
	}
	return int64(n), nil
}
