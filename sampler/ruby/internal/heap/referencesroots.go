package heap

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// flagFinalizer is set on an object with a finalizer (FL_FINALIZE).
const flagFinalizer = 0x80

// HasFinalizer reports whether the object in a slot has a finalizer.
func HasFinalizer(slot []byte) bool { return view.U64(slot)&flagFinalizer != 0 }

// Length returns the number of bytes of a String, or the number of elements of an Array or a Hash. It is zero for other
// objects, and if the number is not in the slot.
func (r *References) Length(slot []byte) uint64 {
	p, flags := r.o.places, view.U64(slot)
	switch flags & TypeMask {
	case TypeString:
		if flags&flagNoEmbed == 0 && p.stringLenInFlags {
			return flags >> 14 & 0x1f
		}
		return view.U64(slot[16:])
	case TypeArray:
		if flags&flagEmbed != 0 {
			return flags >> 15 & p.arrayLenMask
		}
		return view.U64(slot[arrayLength:])
	case TypeHash:
		switch {
		case flags&flagLarge == 0:
			return flags >> smallCountShift & smallMask
		case p.hashSize >= 0 && len(slot) >= p.hashSize+TableSize-word:
			return TableLength(slot[p.hashSize:])
		}
	}
	return 0
}

// TableLength returns the number of entries of an st_table (st_table.num_entries).
func TableLength(table []byte) uint64 { return view.U64(table[16:]) }

// StringBytes returns the address and number of a String's bytes. ok is false if the bytes do not belong to this String
// alone.
func (r *References) StringBytes(addr attach.Address, slot []byte) (at attach.Address, n uint64, ok bool) {
	p, flags := r.o.places, view.U64(slot)
	n = r.Length(slot)
	switch {
	case flags&TypeMask != TypeString:
		return 0, 0, false
	case flags&flagNoEmbed == 0:
		return addr + attach.Address(p.stringEmbedded), n, true
	}
	return attach.Address(view.U64(slot[24:])), n, flags&(r.shared|flagNoFree) == 0
}

// NameTable returns the items of an rb_id_table (a hash table of Ruby whose keys are names), as a Block. ok is false if
// data cannot be such a table, or if its capacity is below least or above most.
func (r *References) NameTable(data []byte, least, most int) (items Block, ok bool) {
	p := r.o.places
	if len(data) < p.idTableSize() {
		return items, false
	}
	n := int(view.U32(data[p.idCapacity:]))
	at := attach.Address(view.U64(data[p.idItems:]))
	if n < least || n > most || n&(n-1) != 0 || at&7 != 0 || at < 1<<16 {
		return items, false
	}
	return Block{At: at, Size: int32(n * p.idItem)}, true
}

// NameItems reads the values and the keys of an rb_id_table. The keys are serial numbers of IDs. Both results are nil
// if a value cannot be an address.
func (r *References) NameItems(b Block) (values, serials []uint64, err error) {
	p := r.o.places
	var data []byte
	if err := r.Ask(func() (err error) { data, err = r.o.View.Bytes(b.At, int(b.Size)); return err }); err != nil {
		return nil, nil, err
	}
	for ; len(data) >= p.idItem; data = data[p.idItem:] {
		serial, value := uint64(view.U32(data[p.itemKey:])), view.U64(data[p.itemValue:])
		if serial == 0 {
			continue
		}
		if value&7 != 0 || value < 1<<16 {
			return nil, nil, nil
		}
		values, serials = append(values, value), append(serials, serial)
	}
	return values, serials, nil
}

// Serial returns the serial number of an ID. Tables by ID use it as the key.
func (r *References) Serial(id uint64) uint64 { return r.o.serial(id) }

// Entries returns the address of the first entry of a hash table (st_table), and the number of entries. data is the
// table's head. Each entry has 24 bytes: a hash, a key and a record. ok is false if the table is empty, too large or
// invalid.
func (r *References) Entries(data []byte, limit uint64) (first uint64, n int, ok bool) {
	p := r.o.places
	start, bound, at := view.U64(data[p.tableStart:]), view.U64(data[p.tableBound:]), view.U64(data[p.tableEntries:])
	if start >= bound || bound > limit || at&7 != 0 || at < 1<<16 {
		return 0, 0, false
	}
	return at + start*tableEntrySize, int(bound - start), true
}

// NameOfID returns the name of an ID.
func (r *References) NameOfID(id uint64) (name string, err error) {
	err = r.Ask(func() (err error) { name, err = r.o.IDName(id); return err })
	return name, err
}

// ClassPath does the same as Objects.ClassPath, but what it reads counts towards the limit maxAsked (see Ask).
func (r *References) ClassPath(class uint64) (name string, err error) {
	err = r.Ask(func() (err error) { name, err = r.o.classPath(class); return err })
	return name, err
}

// OwnName returns the name of a class or module. A singleton class is named after its object, such as #<Class:Path>.
// The name is empty for an anonymous class.
func (r *References) OwnName(v uint64) (name string, err error) {
	o := r.o
	err = r.Ask(func() error {
		c, err := o.readClass(v)
		if err != nil {
			return err
		}
		if name = c.path; !c.singleton {
			return nil
		}
		of, is, err := o.PathOfClass(c.attached)
		if err == nil && !is {
			of, err = o.ClassOf(c.attached)
			of = "#<" + of + ">"
		}
		name = fmt.Sprintf("#<Class:%s>", of)
		return err
	})
	return name, err
}

// ThreadAlive reports whether the thread at an address has not ended. It returns false if its status cannot be read.
func (r *References) ThreadAlive(th attach.Address) bool {
	var alive bool
	err := r.Ask(func() error {
		killed, err := r.o.killed(th)
		alive = !killed
		return err
	})
	return err == nil && alive
}

// ThreadName returns the name of the thread at an address. It is empty if the thread has no name, or if it cannot be
// read.
func (r *References) ThreadName(th attach.Address) (name string) {
	o := r.o
	err := r.Ask(func() error {
		v, err := o.View.Word(th + attach.Address(o.places.threadName))
		if err != nil || !o.IsObject(v) {
			return err
		}
		name, err = o.Text(v)
		return err
	})
	if err != nil {
		return ""
	}
	return name
}
