package heap

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxTable limits how many entries of an rb_id_table are read. The keys of such a table are names, for example of the
// constants or methods of one class.
const maxTable = 1 << 16

// errNoEntry means that a table has no entry for a name.
var errNoEntry = errors.New("no entry")

// Constant returns the String that is the value of a class's constant.
func (o *classes) Constant(class uint64, name string) (string, error) {
	ext, err := o.classExt(attach.Address(class))
	if err != nil {
		return "", err
	}
	entry, err := o.lookUp(ext+attach.Address(o.places.extConsts), name)
	if err != nil {
		return "", err
	}
	v, err := o.View.Word(entry + attach.Address(o.places.constVal))
	if err != nil {
		return "", err
	}
	return o.Text(v)
}

// ConstantValue returns the value of a constant of a class or module. ok is false if there is no such constant, or if
// its autoload has not run yet.
func (o *classes) ConstantValue(class uint64, name string) (value uint64, ok bool, err error) {
	ext, err := o.classExt(attach.Address(class))
	if err != nil {
		return 0, false, err
	}
	entry, err := o.lookUp(ext+attach.Address(o.places.extConsts), name)
	if errors.Is(err, errNoEntry) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	value, err = o.View.Word(entry + attach.Address(o.places.constVal))
	return value, err == nil && value != o.places.undef, err
}

// Method returns the address of a class's method entry for a name. It does not search superclasses.
func (o *classes) Method(class uint64, name string) (attach.Address, error) {
	at := attach.Address(class)
	switch {
	case o.places.classMethods >= 0:
		return o.lookUp(at+attach.Address(o.places.classMethods), name)
	case o.places.extMethods >= 0:
		ext, err := o.classExt(at)
		if err != nil {
			return 0, err
		}
		return o.lookUp(ext+attach.Address(o.places.extMethods), name)
	}
	return 0, errors.New("the layout lacks m_tbl")
}

// classExt returns the address of a class's rb_classext_t, which has further data of the class.
func (o *classes) classExt(class attach.Address) (attach.Address, error) {
	if o.places.classExtPtr < 0 {
		return class + attach.Address(o.places.classExt), nil
	}
	w, err := o.View.Word(class + attach.Address(o.places.classExtPtr))
	return attach.Address(w), err
}

// lookUp finds the entry for a name in a table by ID (rb_id_table), such as a table of constants or methods. The
// parameter at is the address of the pointer to the table.
func (o *classes) lookUp(at attach.Address, name string) (attach.Address, error) {
	table, err := o.View.Word(at)
	if err != nil {
		return 0, err
	}
	head, err := o.View.Bytes(attach.Address(table), max(o.places.idCapacity, o.places.idItems)+8)
	if err != nil {
		return 0, err
	}
	capacity := view.U32(head[o.places.idCapacity:])
	if capacity > maxTable {
		return 0, fmt.Errorf("a table of %d names", capacity)
	}
	items, err := o.View.Bytes(attach.Address(view.U64(head[o.places.idItems:])), int(capacity)*o.places.idItem)
	if err != nil {
		return 0, err
	}
	var missing error
	for ; len(items) >= o.places.idItem; items = items[o.places.idItem:] {
		serial := uint64(view.U32(items[o.places.itemKey:]))
		if serial == 0 {
			continue
		}
		if serial > o.places.lastOpID {
			serial <<= 4
		}
		key, err := o.IDName(serial)
		if err == view.ErrMissing {
			missing = err
		}
		if err == nil && key == name {
			return attach.Address(view.U64(items[o.places.itemValue:])), nil
		}
	}
	if missing != nil {
		return 0, missing
	}
	return 0, fmt.Errorf("%w %s", errNoEntry, name)
}
