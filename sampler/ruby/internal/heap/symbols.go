package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// symbolPageHeader is the size of the header of an rb_darray, in bytes. In head, each page of the symbol table is such
// an array.
const symbolPageHeader = 16

// minSymbols and maxSymbols limit the number of entries of a valid symbol table. Ruby's own names alone are more than
// minSymbols.
const minSymbols, maxSymbols = 200, 1 << 26

// serial returns the index of an ID in the symbol table. The ID of an operator is equal to its index. In other IDs, the
// lowest four bits are the scope, and the index is in the bits above.
func (o *symbols) serial(id uint64) uint64 {
	if id <= o.places.lastOpID {
		return id
	}
	return id >> 4
}

// IDName returns the name of an ID. A cached name stays valid, because the symbol table only ever grows
// (docs/internals/code.md#ids).
func (o *symbols) IDName(id uint64) (string, error) {
	if name, ok := o.idNames[id]; ok {
		return name, nil
	}
	v, err := o.idString(id)
	if err != nil {
		return "", err
	}
	name, err := o.Text(v)
	if err != nil {
		return "", err
	}
	if len(o.idNames) >= maxIDNames {
		o.Forget()
	}
	o.keep(keptEntry + len(name))
	o.idNames[id] = name
	return name, nil
}

func (o *symbols) idString(id uint64) (uint64, error) {
	return o.idStringAt(o.Symbols, id)
}

// idStringAt returns the String of an ID, from the symbol table at the address symbols. ProvesSymbols also calls it, to
// test whether there is a symbol table at an address.
func (o *symbols) idStringAt(symbols attach.Address, id uint64) (uint64, error) {
	serial := o.serial(id)
	count, err := o.View.Bytes(symbols+attach.Address(o.places.symbolsCount), 4)
	if err != nil {
		return 0, err
	}
	if serial == 0 || serial > uint64(view.U32(count)) {
		return 0, fmt.Errorf("ID %#x is not in the symbol table of %d", id, view.U32(count))
	}
	ids, err := o.View.Word(symbols + attach.Address(o.places.symbolsIDs))
	if err != nil {
		return 0, err
	}
	page, err := o.element(ids, serial/idEntryUnit)
	if err != nil {
		return 0, err
	}
	i := serial % idEntryUnit
	if o.places.symbolEntrySize < 0 {
		return o.element(page, 2*i)
	}
	// In head, a page of the symbol table is a T_DATA object with an rb_darray. Each element has a Symbol and a String.
	header, err := o.dataHeader(page, "page of the symbol table")
	if err != nil {
		return 0, err
	}
	entry := o.places.Data(attach.Address(page), header) + symbolPageHeader + attach.Address(i)*attach.Address(o.places.symbolEntrySize)
	return o.View.Word(entry + attach.Address(o.places.symbolEntryStr))
}

// SymbolName returns the name of a Symbol, static or dynamic.
func (o *symbols) SymbolName(v uint64) (string, error) {
	if v&symbolMask == symbolTag {
		return o.IDName(v >> symbolShift)
	}
	flags, err := o.Flags(v)
	if err != nil {
		return "", err
	}
	if flags&TypeMask != TypeSymbol {
		return "", WrongType(attach.Address(v), "Symbol", flags)
	}
	str, err := o.View.Word(attach.Address(v) + attach.Address(o.places.symbolFstr))
	if err != nil {
		return "", err
	}
	return o.Text(str)
}

// FindSymbols searches for the symbol table in data, the memory at the address at. It returns the table's address, or
// zero if the table is not there. The error means that the target cannot be read.
func (o *symbols) FindSymbols(at attach.Address, data []byte) (attach.Address, error) {
	ids, count := o.places.symbolsIDs, o.places.symbolsCount
	for off := 0; off+max(ids, count)+8 <= len(data); off += 8 {
		n := view.U32(data[off+count:])
		if n < minSymbols || n > maxSymbols || !o.IsObject(view.U64(data[off+ids:])) {
			continue
		}
		if ok, err := o.ProvesSymbols(at + attach.Address(off)); ok || err != nil {
			return at + attach.Address(off), err
		}
	}
	return 0, nil
}

// ProvesSymbols reports whether the symbol table is at an address. It looks up the IDs of '!', '+', '-' and '<' there,
// which must have these names. The error means that the target cannot be read.
func (o *symbols) ProvesSymbols(at attach.Address) (bool, error) {
	var ok bool
	err := o.Read(func() error {
		ok = true
		var missing error
		for _, op := range "!+-<" {
			s, err := o.idStringAt(at, uint64(op))
			var name rubyString
			if err == nil {
				name, err = o.rawString(s)
			}
			if err == view.ErrMissing {
				missing = err
			} else if err != nil || string(name.bytes) != string(op) {
				ok = false
				return nil
			}
		}
		return missing
	})
	return ok, err
}
