package heap

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// flagGeneric is set on an object whose instance variables are in a global table (FL_EXIVAR, up to 3.4). The object
	// itself has no room for them.
	flagGeneric = 0x400
	// genericSlots is the offset, in bytes, of the first variable in an object's record. The records are in the global
	// table of instance variables.
	genericSlots = 8
	// maxProbes limits how many bins of a hash table one search reads. Most searches need one or two.
	maxProbes = 64
	// maxSearches limits how often ddtop searches for the global table of instance variables. maxReferences limits how
	// many words a search keeps as possible pointers to the table.
	maxSearches, maxReferences = 3, 1 << 15
	// maxUnhashed limits how many entries are read of a table that has no hash index.
	maxUnhashed = 64
)

// errNoGeneric means that the address of the global table of instance variables is not known.
var errNoGeneric = errors.New("the table of other objects' instance variables was not found")

// reference is a word of the Ruby library's variables that may point to the global table of instance variables.
type reference struct{ at, to attach.Address }

// findGeneric finds the global table of instance variables if the library is stripped and so has no symbol for the
// table. It tries all tables to which the library's variables point. The right table has an entry for the object at the
// address in the parameter has.
func (o *variables) findGeneric(has attach.Address) error {
	if o.Generic != 0 {
		return nil
	}
	if o.references == nil {
		if o.Variables == nil || o.searches >= maxSearches {
			return errNoGeneric
		}
		o.searches++
		err := o.Variables(func(at attach.Address, word uint64) {
			if o.IsObject(word) && word >= 1<<16 && word < 1<<56 && len(o.references) < maxReferences {
				o.references = append(o.references, reference{at, attach.Address(word)})
			}
		})
		if err != nil {
			return err
		}
	}
	err := o.quietly(func() error {
		var missing error
		for _, r := range o.references {
			record, ok, err := o.tableLookup(r.to, uint64(has))
			if ok && err == nil {
				_, err = o.View.Bytes(attach.Address(record), genericSlots+8)
				if err == nil {
					o.Generic = r.at
					return nil
				}
			}
			if err == view.ErrMissing {
				missing = err
			}
		}
		return missing
	})
	if err == nil {
		o.references = nil
		if o.Generic == 0 {
			err = errNoGeneric
		}
	}
	return err
}

// ivarsOfOther finds the instance variables of an object that is neither ordinary nor a class. Up to 3.4 they are in a
// global table. The object's shape, or a table of its class, says in which slots they are. From 4.0 on, a data object
// has a word that leads to its variables.
func (o *variables) ivarsOfOther(addr attach.Address, flags uint64) (ivars, error) {
	switch {
	case o.places.fieldsSlots >= 0 && flags&TypeMask == TypeData:
		o.noteWord(addr, flags, TypeMask)
		return o.fieldsAt(addr + basicSize)
	case o.places.fieldsSlots >= 0:
		return ivars{}, WrongType(addr, "object with variables that are read", flags)
	}
	o.noteWord(addr, flags, TypeMask|flagGeneric)
	if flags&flagGeneric == 0 {
		return ivars{}, nil
	}
	if err := o.findGeneric(addr); err != nil {
		return ivars{}, err
	}
	table, err := o.View.Word(o.Generic)
	if err != nil {
		return ivars{}, err
	}
	record, ok, err := o.tableLookup(attach.Address(table), uint64(addr))
	if err != nil || !ok {
		return ivars{}, err
	}
	at := attach.Address(record)
	if o.places.objectCount < 0 {
		id := uint32(flags >> 32)
		s, err := o.shapeAt(id)
		if err != nil {
			return ivars{}, err
		}
		o.noteWord(addr, flags, TypeMask|flagGeneric|0xffffffff<<32)
		if s.typ == o.places.typeComplex {
			w, err := o.notedWord(at)
			return ivars{table: attach.Address(w)}, err
		}
		return ivars{kind: uint64(id), slots: at + genericSlots}, nil
	}
	count, err := o.View.Bytes(at, 4)
	if err != nil {
		return ivars{}, err
	}
	table, err = o.indexOfClass(addr)
	return ivars{kind: table, slots: at + genericSlots, count: int(view.U32(count))}, err
}

// fieldsAt finds the instance variables that are in an internal object (from 4.0 on). word is the address of the word
// that refers to this internal object.
func (o *variables) fieldsAt(word attach.Address) (ivars, error) {
	v, err := o.notedWord(word)
	if err != nil || !o.IsObject(v) {
		return ivars{}, err
	}
	flags, err := o.Flags(v)
	if err != nil {
		return ivars{}, err
	}
	addr, p := attach.Address(v), o.places
	if flags&TypeMask != TypeImemo {
		return ivars{}, WrongType(addr, "object of instance variables", flags)
	}
	o.noteWord(addr, flags, TypeMask|p.flagBehind|0xffffffff<<32)
	id := uint32(flags >> 32)
	switch {
	case id&p.shapeComplex != 0 && p.shapeLayout != 0:
		return ivars{table: addr + attach.Address(p.fieldsTable)}, nil
	case id&p.shapeComplex != 0:
		w, err := o.notedWord(addr + attach.Address(p.fieldsTable))
		return ivars{table: attach.Address(w)}, err
	case p.flagBehind != 0 && flags&p.flagBehind != 0:
		w, err := o.notedWord(addr + attach.Address(p.fieldsBehind))
		return ivars{kind: uint64(id & p.shapeMask), slots: attach.Address(w)}, err
	}
	return ivars{kind: uint64(id & p.shapeMask), slots: addr + attach.Address(p.fieldsSlots)}, nil
}

func (o *variables) ivarsOfClass(addr attach.Address, flags uint64) (ivars, error) {
	o.noteWord(addr, flags, TypeMask)
	ext, err := o.classExt(addr)
	if err != nil {
		return ivars{}, err
	}
	p := o.places
	switch {
	case p.extIvTbl >= 0:
		w, err := o.notedWord(ext + attach.Address(p.extIvTbl))
		return ivars{table: attach.Address(w)}, err
	case p.fieldsSlots >= 0:
		return o.fieldsAt(ext + attach.Address(p.extFields))
	}
	id := uint32(flags >> 32)
	o.noteWord(addr, flags, TypeMask|0xffffffff<<32)
	s, err := o.shapeAt(id)
	if err != nil {
		return ivars{}, err
	}
	w, err := o.notedWord(ext + attach.Address(max(p.extIvPtr, p.extFields)))
	if s.typ == p.typeComplex {
		return ivars{table: attach.Address(w)}, err
	}
	return ivars{kind: uint64(id), slots: attach.Address(w)}, err
}

// tableLookup returns the record for key in a hash table of Ruby's C code (st_table) whose keys are numbers. It hashes
// the key in the same way as st.c.
func (o *variables) tableLookup(table attach.Address, key uint64) (record uint64, ok bool, err error) {
	p := o.places
	head, err := o.View.Bytes(table, max(p.tableStart, p.tableBound, p.tableEntries, p.tableBins)+8)
	if err != nil {
		return 0, false, err
	}
	entries, bound := attach.Address(view.U64(head[p.tableEntries:])), view.U64(head[p.tableBound:])
	is := func(i uint64) (bool, error) {
		b, err := o.View.Bytes(entries+attach.Address(i)*tableEntrySize, tableEntrySize)
		if err != nil || view.U64(b) == deletedEntry || view.U64(b[8:]) != key {
			return false, err
		}
		o.Note(table+attach.Address(p.tableEntries), head[p.tableEntries:][:8], 0)
		o.Note(entries+attach.Address(i)*tableEntrySize, b, 0)
		record = view.U64(b[16:])
		return true, nil
	}
	if p.tableBins < 0 {
		return 0, false, errNoGeneric // on head, such a table has no hash index
	}
	bins := attach.Address(view.U64(head[p.tableBins:]))
	if bins == 0 {
		for i := view.U64(head[p.tableStart:]); i < min(bound, maxUnhashed); i++ {
			if ok, err = is(i); ok || err != nil {
				return record, ok, err
			}
		}
		return 0, false, nil
	}
	power, size := head[p.tableBinPower], 1<<(head[p.tableBinSize]&3)
	if power > 40 {
		return 0, false, fmt.Errorf("the table at %s has 2^%d places", table, power)
	}
	hash := (key>>11 | key<<3) ^ key>>3
	mask := uint64(1)<<power - 1
	perturb, bin := hash, hash&mask
	for range maxProbes {
		b, err := o.View.Bytes(bins+attach.Address(bin)*attach.Address(size), size)
		if err != nil {
			return 0, false, err
		}
		n := uint64(0)
		for i := size - 1; i >= 0; i-- {
			n = n<<8 | uint64(b[i])
		}
		const empty, deleted = 0, 1
		if n == empty {
			return 0, false, nil
		}
		if n != deleted && n-2 < bound {
			if ok, err = is(n - 2); ok || err != nil {
				return record, ok, err
			}
		}
		perturb >>= 11
		bin = (5*bin + perturb + 1) & mask
	}
	return 0, false, fmt.Errorf("the table at %s leads on and on", table)
}
