package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxKnownSlots bounds how many slots of instance variables are cached.
	maxKnownSlots = 1 << 14
	// noSlot means that objects with this shape, or of this class, do not have the variable.
	noSlot = -1
)

// slotKey identifies a variable by its name and by the kind of its object. kind is the ID of a shape. Up to 3.1 it is
// the address of a class's table.
type slotKey struct {
	kind uint64
	name string
}

// slotPlace is a cached slot of a variable. generation is the generation in which the slot was read from a class's
// table. In a later generation the slot is read again, because the class may have been freed.
type slotPlace struct {
	slot       int
	generation uint32
}

// ivars says where the instance variables of one object are.
type ivars struct {
	kind  uint64         // as in slotKey
	slots attach.Address // address of the first variable; zero if the object has none
	count int            // number of variables, up to 3.1
	table attach.Address // address of an st_table whose keys are IDs and which has the variables; zero if there is none
}

// Ivar returns an instance variable of an object. The variable can be an internal one without an @, such as an
// exception's mesg. ok is false if the object has no variable with this name. Ivar can read ordinary objects, classes,
// modules and data objects, and up to 3.4 all other objects. For other objects it returns an error from 4.0 on
// (docs/internals/objects.md#instance-variables).
func (o *variables) Ivar(object uint64, name string) (value uint64, ok bool, err error) {
	at, ok, err := o.ivarAt(object, name)
	if err != nil || !ok {
		return 0, false, err
	}
	value, err = o.notedWord(at)
	if err != nil || value == o.places.undef {
		return 0, false, err
	}
	return value, true, nil
}

func (o *variables) ivarAt(object uint64, name string) (at attach.Address, ok bool, err error) {
	v, err := o.ivarsOf(object)
	switch {
	case err != nil:
		return 0, false, err
	case v.table != 0:
		return o.ivarInTable(v.table, name)
	case v.slots == 0:
		return 0, false, nil
	}
	slot, err := o.slotOf(v.kind, name)
	if err != nil || slot == noSlot || o.places.objectCount >= 0 && slot >= v.count {
		return 0, false, err
	}
	return v.slots + attach.Address(slot)*8, true, nil
}

func (o *variables) ivarsOf(object uint64) (ivars, error) {
	addr := attach.Address(object)
	flags, err := o.Flags(object)
	if err != nil {
		return ivars{}, err
	}
	switch typ := flags & TypeMask; {
	case typ == TypeObject && o.places.objectCount >= 0:
		return o.ivarsByClass(addr, flags)
	case typ == TypeObject:
		return o.ivarsByShape(addr, flags)
	case typ == typeClass, typ == typeModule:
		return o.ivarsOfClass(addr, flags)
	case typ == TypeNone, typ >= TypeImemo:
		return ivars{}, WrongType(addr, "object with variables", flags)
	}
	return o.ivarsOfOther(addr, flags)
}

// ivarsByClass finds the instance variables of an object, up to 3.1. In these releases a table of the object's class
// says in which slots they are.
func (o *variables) ivarsByClass(addr attach.Address, flags uint64) (ivars, error) {
	const embedded, mostEmbedded = flagEmbed, 3 // ROBJECT_EMBED, ROBJECT_EMBED_LEN_MAX
	o.noteWord(addr, flags, TypeMask|embedded)
	if flags&embedded == 0 {
		b, err := o.View.Bytes(addr, o.places.objectIndex+8)
		if err != nil {
			return ivars{}, err
		}
		o.Note(addr+basicSize, b[basicSize:], 0)
		return ivars{kind: view.U64(b[o.places.objectIndex:]), slots: attach.Address(view.U64(b[o.places.objectBehind:])),
			count: int(view.U32(b[o.places.objectCount:]))}, nil
	}
	table, err := o.indexOfClass(addr)
	return ivars{kind: table, slots: addr + attach.Address(o.places.objectSlots), count: mostEmbedded}, err
}

// indexOfClass returns the table of an object's class that maps the names of instance variables to slots (up to 3.1).
func (o *classes) indexOfClass(addr attach.Address) (uint64, error) {
	class, err := o.notedWord(addr + BasicClass)
	if err != nil {
		return 0, err
	}
	if class, err = o.realClass(class); err != nil {
		return 0, err
	}
	ext, err := o.classExt(attach.Address(class))
	if err != nil {
		return 0, err
	}
	return o.View.Word(ext + attach.Address(o.places.extIvIndex))
}

// ivarsByShape finds the instance variables of an object, from 3.2 on. The object's flags have the ID of its shape. The
// shape says in which slots the variables are.
func (o *variables) ivarsByShape(addr attach.Address, flags uint64) (ivars, error) {
	p := o.places
	id := uint32(flags >> 32)
	v := ivars{kind: uint64(id & p.shapeMask)}
	o.noteWord(addr, flags, TypeMask|p.flagEmbedded|p.flagBehind|0xffffffff<<32)
	complex := id&p.shapeComplex != 0
	if p.shapeComplex == 0 {
		s, err := o.shapeAt(id)
		if err != nil {
			return v, err
		}
		complex = s.typ == p.typeComplex
	}
	behind := complex
	switch {
	case p.shapeLayout != 0:
		behind = id&p.shapeLayout != 0
	case p.flagEmbedded != 0:
		behind = behind || flags&p.flagEmbedded == 0
	default:
		behind = behind || flags&p.flagBehind != 0
	}
	if !behind {
		v.slots = addr + attach.Address(p.objectSlots)
		return v, nil
	}
	w, err := o.notedWord(addr + attach.Address(p.objectBehind))
	if err != nil {
		return v, err
	}
	at := attach.Address(w)
	switch {
	case p.shapeLayout != 0 && complex:
		v.table = at + attach.Address(p.fieldsTable) // the table is in the object that holds the variables
	case p.shapeLayout != 0:
		v.slots = at + attach.Address(p.fieldsSlots)
	case complex:
		v.table = at
	default:
		v.slots = at
	}
	return v, nil
}

// slotOf returns the slot of a variable, from a shape or from a class's table.
func (o *variables) slotOf(kind uint64, name string) (int, error) {
	key := slotKey{kind, name}
	shapes := o.places.objectCount < 0
	if known, ok := o.slots[key]; ok && (shapes || known.generation == o.generation) {
		return known.slot, nil
	}
	found := noSlot
	sought := search{name: name}
	var err error
	if shapes {
		err = o.eachShape(uint32(kind), func(edge uint64, slot int) (bool, error) {
			is, err := sought.is(o, edge)
			if is {
				found = slot
			}
			return is, err
		})
	} else if kind != 0 {
		err = o.quietly(func() error {
			return o.eachEntry(attach.Address(kind), maxIvars, func(_ attach.Address, entry []byte) (bool, error) {
				is, err := sought.is(o, view.U64(entry[8:]))
				if err != nil || !is {
					return false, err
				}
				index, err := o.indexOf(entry)
				if err != nil {
					return false, err
				}
				if index > maxIvars {
					return false, fmt.Errorf("instance variable %s has index %d", name, index)
				}
				found = int(index)
				return true, nil
			})
		})
	}
	if err == nil && found == noSlot {
		err = sought.unread
	}
	if err != nil {
		return noSlot, err
	}
	// do not cache that a class's table lacks the variable, because it can be added later
	if found != noSlot || shapes {
		if len(o.slots) >= maxKnownSlots {
			clear(o.slots)
		}
		o.slots[key] = slotPlace{found, o.generation}
	}
	return found, nil
}

func (o *variables) ivarInTable(table attach.Address, name string) (at attach.Address, ok bool, err error) {
	sought := search{name: name}
	err = o.quietly(func() error {
		return o.eachEntry(table, maxIvars, func(entryAt attach.Address, entry []byte) (bool, error) {
			is, err := sought.is(o, view.U64(entry[8:]))
			if is {
				at = entryAt + 16
			}
			return is, err
		})
	})
	if err == nil && at == 0 {
		err = sought.unread
	}
	return at, at != 0, err
}

// search compares IDs with a name, to find the ID that has this name.
type search struct {
	name string
	// unread is the error of the first ID whose name could not be read, for example because a compaction has locked its
	// page. This ID may be the wanted one.
	unread error
}

// is (a method) reports whether an ID has the wanted name. An error ends the search.
func (s *search) is(o *variables, id uint64) (bool, error) {
	got, err := o.IDName(id)
	switch {
	case err == view.ErrMissing, Displaced(err):
		return false, err
	case view.CantTell(err) && s.unread == nil:
		s.unread = err
	}
	return err == nil && got == s.name, nil
}

// quietly calls f without recording the memory that f reads. Use it for reads that a later check does not have to
// repeat.
func (o *witnesses) quietly(f func() error) error {
	notes := o.notes
	o.notes = nil
	defer func() { o.notes = notes }()
	return f()
}

// realClass returns the class of an object, given its class pointer. It skips singleton classes and the entries of
// included modules.
func (o *classes) realClass(class uint64) (uint64, error) {
	for range maxSupers {
		flags, err := o.Flags(class)
		if err != nil {
			return 0, err
		}
		if flags&TypeMask == typeClass && flags&o.places.singleton == 0 {
			return class, nil
		}
		if class, err = o.superOf(class); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("there are more than %d classes above the one at %#x", maxSupers, class)
}
