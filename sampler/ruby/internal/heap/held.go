package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// EachHeld calls visit for each object that a class or module holds in a constant or variable. id is the ID of the
// constant's or variable's name. If memory for an object is missing, EachHeld continues with the next one. Call it in a
// function that Read calls.
func (o *Objects) EachHeld(class uint64, visit func(id, value uint64) error) error {
	var missing error
	take := func(id, value uint64) error {
		if !o.IsObject(value) {
			return nil
		}
		err := visit(id, value)
		if err == view.ErrMissing {
			missing, err = err, nil
		}
		return err
	}
	flags, err := o.Flags(class)
	if err != nil {
		return err
	}
	ext, err := o.classExt(attach.Address(class))
	if err != nil {
		return err
	}
	errConstants := o.eachConstant(ext, take)
	v, err := o.ivarsOfClass(attach.Address(class), flags)
	switch {
	case err != nil:
	case v.table != 0:
		err = o.eachEntry(v.table, maxIvars, func(_ attach.Address, entry []byte) (bool, error) {
			return false, take(view.U64(entry[8:]), view.U64(entry[16:]))
		})
	case v.slots != 0:
		err = o.eachShape(uint32(v.kind), func(edge uint64, slot int) (bool, error) {
			value, err := o.View.Word(v.slots + attach.Address(slot)*8)
			if err == view.ErrMissing {
				missing = err
				return false, nil
			}
			return false, view.Worst(err, take(edge, value))
		})
	}
	return view.Worst(errConstants, err, missing)
}

func (o *classes) eachConstant(ext attach.Address, take func(id, value uint64) error) error {
	table, err := o.View.Word(ext + attach.Address(o.places.extConsts))
	if err != nil || table == 0 {
		return err
	}
	var missing error
	err = o.eachName(attach.Address(table), func(id, entry uint64) error {
		value, err := o.View.Word(attach.Address(entry) + attach.Address(o.places.constVal))
		if err == view.ErrMissing {
			missing = err
			return nil
		}
		return view.Worst(err, take(id, value))
	})
	return view.Worst(err, missing)
}

// eachName calls f for each entry of an rb_id_table, a hash table of Ruby whose keys are names. id is the ID of the
// entry's name.
func (o *classes) eachName(table attach.Address, f func(id, value uint64) error) error {
	p := o.places
	head, err := o.View.Bytes(table, p.idTableSize())
	if err != nil {
		return err
	}
	capacity := view.U32(head[p.idCapacity:])
	if capacity > maxTable {
		return fmt.Errorf("a table of %d names", capacity)
	}
	items, err := o.View.Bytes(attach.Address(view.U64(head[p.idItems:])), int(capacity)*p.idItem)
	if err != nil {
		return err
	}
	for ; len(items) >= p.idItem; items = items[p.idItem:] {
		serial := uint64(view.U32(items[p.itemKey:]))
		if serial == 0 {
			continue
		}
		if serial > p.lastOpID {
			serial <<= 4
		}
		if err := f(serial, view.U64(items[p.itemValue:])); err != nil {
			return err
		}
	}
	return nil
}

// minGlobals is the least number of global variables that every Ruby has. A smaller table is not the table of globals.
const minGlobals = 20

// Globals returns the objects that global variables hold, by the IDs of their names. ok is false if the rb_id_table at
// the address table is not the table of global variables. In the right table, each entry refers to a variable that
// repeats the entry's name (rb_global_tbl, variable.c, 2.7 to 4.0). Call Globals in a function that Read calls.
func (o *Objects) Globals(table attach.Address) (values map[uint64]uint64, ok bool, err error) {
	p := o.places
	head, err := o.View.Bytes(table, p.idTableSize())
	if err != nil {
		return nil, false, err
	}
	n, items := view.U32(head[p.idCapacity:]), view.U64(head[p.idItems:])
	if n < minGlobals || n > maxTable || n&(n-1) != 0 || items&7 != 0 {
		return nil, false, nil
	}
	var missing error
	found, other := 0, false
	values = make(map[uint64]uint64)
	err = o.eachName(table, func(id, entry uint64) error {
		b, err := o.View.Bytes(attach.Address(entry), 16)
		if err == view.ErrMissing {
			missing = err
			return nil
		}
		if err != nil || entry&7 != 0 || o.serial(view.U64(b[8:])) != o.serial(id) {
			other = true
			return errNoEntry
		}
		found++
		// data is the variable's value. If the value is stored in a variable of C code, data is the address of that
		// variable.
		data, err := o.View.Word(attach.Address(view.U64(b)) + 8)
		if err != nil {
			missing = view.Worst(missing, err)
			return nil
		}
		values[view.U64(b[8:])] = data
		return nil
	})
	if other {
		return nil, false, nil
	}
	if err = view.Worst(err, missing); err != nil || found < minGlobals {
		return nil, false, err
	}
	return values, true, nil
}
