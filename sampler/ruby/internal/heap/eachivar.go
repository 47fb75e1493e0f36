package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// EachIvar calls visit for the instance variables in the first slots of an ordinary object. most is the number of these
// slots. Call it in a function that Read calls. It skips objects of other types, and objects with so many variables
// that a table holds them.
func (o *variables) EachIvar(object uint64, most int, visit func(id, value uint64) error) error {
	flags, err := o.Flags(object)
	if err != nil || flags&TypeMask != TypeObject {
		return err
	}
	v, err := o.ivarsOf(object)
	if err != nil || v.slots == 0 || v.table != 0 {
		return err
	}
	read := func(id uint64, slot int) error {
		if slot >= most || o.places.objectCount >= 0 && slot >= v.count {
			return nil
		}
		value, err := o.View.Word(v.slots + attach.Address(slot)*8)
		if err != nil || value == o.places.undef {
			return err
		}
		return visit(id, value)
	}
	if o.places.objectCount < 0 {
		return o.eachShape(uint32(v.kind), func(edge uint64, slot int) (bool, error) { return false, read(edge, slot) })
	}
	if v.kind == 0 {
		return nil
	}
	return o.eachEntry(attach.Address(v.kind), maxIvars, func(_ attach.Address, entry []byte) (bool, error) {
		index, err := o.indexOf(entry)
		if err != nil {
			return false, err
		}
		return false, read(view.U64(entry[8:]), int(min(index, maxIvars)))
	})
}

// indexOf returns the slot of an instance variable, from its entry in the table of the object's class (up to 3.1).
func (o *variables) indexOf(entry []byte) (uint64, error) {
	record := view.U64(entry[16:])
	if o.places.entryIndex < 0 {
		return record, nil
	}
	b, err := o.View.Bytes(attach.Address(record)+attach.Address(o.places.entryIndex), 4)
	if err != nil {
		return 0, err
	}
	return uint64(view.U32(b)), nil
}
