package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxFiberLocals limits the size of a fiber's table of local variables, in entries.
const maxFiberLocals = 1 << 12

// FiberLocals calls f for the fiber-local variables (Thread#[]) of an execution context, in any order, until f returns
// false. f can be called twice with the same variable, because Read starts again after it has fetched missing memory.
func (o *Objects) FiberLocals(ec attach.Address, f func(name string, value uint64) (more bool, err error)) error {
	_, err := o.eachFiberLocal(ec, func(at place, name string, value uint64) (bool, error) {
		o.notePlace(at)
		return f(name, value)
	})
	return err
}

// FiberLocal returns one fiber-local variable. ok is false if the fiber has no variable with this name. FiberLocal then
// notes the memory of the whole table, so that a later check shows whether the variable was added.
func (o *Objects) FiberLocal(ec attach.Address, name string) (value uint64, ok bool, err error) {
	p, err := o.eachFiberLocal(ec, func(at place, n string, v uint64) (bool, error) {
		if n == name {
			value, ok = v, true
			o.notePlace(at)
		}
		return !ok, nil
	})
	if err == nil && !ok {
		o.Note(p.at, p.bytes, 0)
	}
	return value, ok, err
}

// eachFiberLocal does the same as FiberLocals, but also passes the place of each variable to f. It returns the whole
// table.
func (o *Objects) eachFiberLocal(ec attach.Address, f func(at place, name string, value uint64) (more bool, err error)) (pairs, error) {
	table, err := o.notedWord(ec + attach.Address(o.places.ecLocals))
	if err != nil || table == 0 {
		return pairs{}, err
	}
	p, err := o.fiberLocals(attach.Address(table))
	if err != nil {
		return pairs{}, err
	}
	return p, p.each(func(at place, key, value uint64) (bool, error) {
		if o.places.localsBySerial {
			if key &= 0xffffffff; key > o.places.lastOpID {
				key <<= 4
			}
		}
		name, err := o.IDName(key)
		if err == view.ErrMissing || Displaced(err) {
			return false, err
		}
		if err != nil {
			return true, nil // a Symbol without a name
		}
		return f(at, name, value)
	})
}

// fiberLocals finds the table of a fiber's local variables. Up to 2.7 it is a hash table (st_table) whose keys are IDs.
// From 3.0 on it is an rb_id_table, whose keys are the serial numbers of IDs.
func (o *Objects) fiberLocals(table attach.Address) (pairs, error) {
	if !o.places.localsBySerial {
		if _, err := o.notedWord(table + attach.Address(o.places.tableBound)); err != nil {
			return pairs{}, err
		}
		return o.tablePairs(table, maxFiberLocals)
	}
	head, err := o.View.Bytes(table, max(o.places.idCapacity, o.places.idItems)+8)
	if err != nil {
		return pairs{}, err
	}
	capacity := view.U32(head[o.places.idCapacity:])
	if capacity > maxFiberLocals {
		return pairs{}, fmt.Errorf("a table of %d variables", capacity)
	}
	o.Note(table, head, 0)
	at := attach.Address(view.U64(head[o.places.idItems:]))
	b, err := o.View.Bytes(at, int(capacity)*o.places.idItem)
	key := o.places.itemKey
	return pairs{at: at, bytes: b, stride: o.places.idItem, key: key, deleted: func(place []byte) bool { return view.U32(place[key:]) == 0 }}, err
}

// Fiber returns the Fiber object of an execution context. It returns zero if Ruby has not made this object yet.
func (o *Objects) Fiber(ec attach.Address) (uint64, error) {
	fiber, err := o.notedWord(ec + attach.Address(o.places.ecFiber))
	if err != nil || fiber == 0 {
		return 0, err
	}
	return o.notedWord(attach.Address(fiber) + attach.Address(o.places.fiberSelf))
}

// FiberStorage returns the Hash with a fiber's inherited storage (Fiber[], 3.2 and later). It returns zero if the fiber
// has none.
func (o *Objects) FiberStorage(ec attach.Address) (uint64, error) {
	if o.places.ecStorage < 0 {
		return 0, nil
	}
	v, err := o.notedWord(ec + attach.Address(o.places.ecStorage))
	if !o.IsObject(v) {
		v = 0
	}
	return v, err
}
