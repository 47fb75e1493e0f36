package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
)

// symbolPageHeader is the size of rb_darray's header, in bytes (head: a page of the symbol table is such an array).
const symbolPageHeader = 16

// serial is an ID's place in the symbol table: operators are their own serial, other IDs carry it above four bits of scope.
func (d *Decoder) serial(id uint64) uint64 {
	if id <= d.o.lastOpID {
		return id
	}
	return id >> 4
}

// idName returns the name of an ID. Kept forever: the table is only ever appended to (docs/internals/code.md#ids).
func (d *Decoder) idName(id uint64) (string, error) {
	if name, ok := d.idNames[id]; ok {
		return name, nil
	}
	v, err := d.idString(id)
	if err != nil {
		return "", err
	}
	name, err := d.text(v)
	if err != nil {
		return "", err
	}
	if len(d.idNames) >= maxIDNames {
		d.forgetAll()
	}
	d.keep(keptEntry + len(name))
	d.idNames[id] = name
	return name, nil
}

// idString returns the String that names an ID.
func (d *Decoder) idString(id uint64) (uint64, error) {
	return d.idStringAt(d.vm.Symbols, id)
}

// idStringAt does so with the symbol table at a given place; that is how a candidate for it is proven.
func (d *Decoder) idStringAt(symbols attach.Address, id uint64) (uint64, error) {
	serial := d.serial(id)
	count, err := d.view.Bytes(symbols+attach.Address(d.o.symbolsCount), 4)
	if err != nil {
		return 0, err
	}
	if serial == 0 || serial > uint64(le32(count)) {
		return 0, fmt.Errorf("ID %#x is not in the symbol table of %d", id, le32(count))
	}
	ids, err := d.view.Word(symbols + attach.Address(d.o.symbolsIDs))
	if err != nil {
		return 0, err
	}
	page, err := d.element(ids, serial/idEntryUnit)
	if err != nil {
		return 0, err
	}
	i := serial % idEntryUnit
	if d.o.symbolEntrySize < 0 {
		return d.element(page, 2*i)
	}
	// A page of head is a T_DATA around an rb_darray of {symbol, string}.
	flags, err := d.flags(page)
	if err != nil {
		return 0, err
	}
	if flags&typeMask != typeData {
		return 0, &wrongTypeError{attach.Address(page), "page of the symbol table", flags}
	}
	data, err := d.typedData(page)
	if err != nil {
		return 0, err
	}
	entry := data + symbolPageHeader + attach.Address(i)*attach.Address(d.o.symbolEntrySize)
	return d.view.Word(entry + attach.Address(d.o.symbolEntryStr))
}

// typedData returns the data of an RTypedData: behind its pointer, or right after its header when it is embedded.
func (d *Decoder) typedData(v uint64) (attach.Address, error) {
	addr := attach.Address(v)
	b, err := d.view.Bytes(addr, 40)
	if err != nil {
		return 0, err
	}
	embedded := le64(b[d.o.typedType:])&1 != 0
	if d.o.typedFlag >= 0 {
		embedded = le64(b[d.o.typedFlag:])&2 != 0
	}
	if embedded {
		return addr + attach.Address(d.o.typedData), nil
	}
	return attach.Address(le64(b[d.o.typedData:])), nil
}

// symbolName returns the name of a Symbol, static or dynamic.
func (d *Decoder) symbolName(v uint64) (string, error) {
	if v&symbolMask == symbolTag {
		return d.idName(v >> symbolShift)
	}
	flags, err := d.flags(v)
	if err != nil {
		return "", err
	}
	if flags&typeMask != typeSymbol {
		return "", &wrongTypeError{attach.Address(v), "Symbol", flags}
	}
	str, err := d.view.Word(attach.Address(v) + attach.Address(d.o.symbolFstr))
	if err != nil {
		return "", err
	}
	return d.text(str)
}
