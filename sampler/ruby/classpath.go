package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxIvars bounds the instance variables of a class that are looked through.
	maxIvars = 1 << 14
	// maxShapes bounds the chain of shapes of a class: its number of instance variables.
	maxShapes = 1 << 14
	// maxSupers bounds the walk from a singleton class to the class behind it.
	maxSupers = 256
	// shapeIvar is the type of a shape that adds an instance variable, shapeRoot that of the first shape (3.2).
	shapeRoot, shapeIvar = 0, 1
	// noShape is the parent of the first shape (INVALID_SHAPE_ID, 3.2).
	noShape = 0xffffffff
)

// class is what is known of a class or module for naming its methods.
type class struct {
	path string
	// permanent: the path is final. Ruby leaves any other path out of labels.
	permanent bool
	// singleton: a singleton class; attached is the object it belongs to.
	singleton bool
	attached  uint64
	iclass    bool
}

// className is the name of a class as found in one generation: a class can go away, and others can stand in its place.
type className struct {
	name       string
	generation generation
}

// readClass reads a class or module.
func (d *Decoder) readClass(v uint64) (class, error) {
	flags, err := d.flags(v)
	if err != nil {
		return class{}, err
	}
	var c class
	switch flags & typeMask {
	case typeClass:
		c.singleton = flags&d.o.singleton != 0
	case typeModule:
	case typeIClass:
		return class{iclass: true}, nil
	default:
		return class{}, &wrongTypeError{attach.Address(v), "class", flags}
	}
	switch {
	case d.o.extPath >= 0:
		err = d.readClassWords(v, &c)
	case d.o.extIvPtr >= 0:
		err = d.readClassShape(v, flags, &c)
	default:
		err = d.readClassTable(v, &c)
	}
	return c, err
}

// readClassWords: 3.3 and later keep the path in the class ext.
func (d *Decoder) readClassWords(v uint64, c *class) error {
	ext := attach.Address(v) + attach.Address(d.o.classExt)
	if c.singleton {
		var err error
		c.attached, err = d.view.Word(ext + attach.Address(d.o.extAttached))
		return err
	}
	path, err := d.view.Word(ext + attach.Address(d.o.extPath))
	if err != nil {
		return err
	}
	bits, err := d.view.Bytes(ext, d.o.extPermanent.Offset+d.o.extPermanent.Size)
	if err != nil {
		return err
	}
	if !d.isHeap(path) { // anonymous
		return nil
	}
	c.permanent = d.o.extPermanent.In(bits) != 0
	c.path, err = d.text(path)
	return err
}

// readClassShape: 3.2 keeps hidden instance variables, placed by the class's shape (the upper half of its flags).
func (d *Decoder) readClassShape(v, flags uint64, c *class) error {
	ext := attach.Address(v) + attach.Address(d.o.classExt)
	values, err := d.view.Word(ext + attach.Address(d.o.extIvPtr))
	if err != nil {
		return err
	}
	shapes, err := d.view.Word(d.vm.Addr + attach.Address(d.o.vmShapes))
	if err != nil {
		return err
	}
	id := uint32(flags >> 32)
	for range maxShapes {
		if id == noShape {
			return nil
		}
		shape, err := d.view.Bytes(attach.Address(shapes)+attach.Address(id)*attach.Address(d.o.shapeSize), d.o.shapeSize)
		if err != nil {
			return err
		}
		switch shape[d.o.shapeType] {
		case shapeRoot:
			return nil
		case shapeIvar:
			index := le32(shape[d.o.shapeNext:])
			if index == 0 || index > maxIvars {
				return fmt.Errorf("shape %d of the class at %#x has index %d", id, v, index)
			}
			at := attach.Address(values) + attach.Address(index-1)*8
			done, err := d.hiddenIvar(c, le64(shape[d.o.shapeEdge:]), func() (uint64, error) { return d.view.Word(at) })
			if err != nil || done {
				return err
			}
		}
		id = le32(shape[d.o.shapeParent:])
	}
	return fmt.Errorf("the class at %#x has more than %d shapes", v, maxShapes)
}

// readClassTable: up to 3.1 hidden instance variables stand in a table of the class ext, by ID.
func (d *Decoder) readClassTable(v uint64, c *class) error {
	ext, err := d.view.Word(attach.Address(v) + attach.Address(d.o.classExtPtr))
	if err != nil {
		return err
	}
	table, err := d.view.Word(attach.Address(ext) + attach.Address(d.o.extIvTbl))
	if err != nil || table == 0 {
		return err
	}
	return d.eachEntry(attach.Address(table), maxIvars, func(key, record uint64) (bool, error) {
		return d.hiddenIvar(c, key, func() (uint64, error) { return record, nil })
	})
}

// hiddenIvar takes one of the hidden instance variables that name a class; done says that nothing better can follow.
func (d *Decoder) hiddenIvar(c *class, id uint64, value func() (uint64, error)) (done bool, err error) {
	name, err := d.idName(id)
	if err != nil {
		return false, err
	}
	switch {
	case name == "__attached__" && c.singleton:
		c.attached, err = value()
		return err == nil, err
	case c.singleton:
		return false, nil
	case name == "__classpath__", name == "__tmp_classpath__":
		v, err := value()
		if err != nil || !d.isHeap(v) {
			return false, err
		}
		path, err := d.text(v)
		if err != nil {
			return false, err
		}
		c.path, c.permanent = path, name == "__classpath__"
		return c.permanent, nil
	case name == "__classid__" && !c.permanent:
		// 2.5, 2.6: a class made in C that nobody has asked for its name yet.
		v, err := value()
		if err != nil {
			return false, err
		}
		path, err := d.symbolName(v)
		if err != nil {
			return false, err
		}
		c.path, c.permanent = path, true
	}
	return false, nil
}

// eachEntry calls f for the entries of an st_table, at most limit of them, until it says done. What misses memory does
// not keep f from the entries behind it, so that all of it is fetched at once.
func (d *Decoder) eachEntry(table attach.Address, limit uint64, f func(key, record uint64) (done bool, err error)) error {
	const entrySize = 24
	size := max(d.o.tableStart, d.o.tableBound, d.o.tableEntries) + 8
	b, err := d.view.Bytes(table, size)
	if err != nil {
		return err
	}
	start, bound := le64(b[d.o.tableStart:]), le64(b[d.o.tableBound:])
	if start >= bound {
		return nil
	}
	if bound-start > limit {
		return fmt.Errorf("the table at %s has %d entries, more than %d", table, bound-start, limit)
	}
	at := attach.Address(le64(b[d.o.tableEntries:])) + attach.Address(start)*entrySize
	entries, err := d.view.Bytes(at, int(bound-start)*entrySize)
	if err != nil {
		return err
	}
	var missing error
	for ; len(entries) > 0; entries = entries[entrySize:] {
		if le64(entries) == ^uint64(0) { // deleted
			continue
		}
		done, err := f(le64(entries[8:]), le64(entries[16:]))
		if err == view.ErrMissing {
			missing = err
			continue
		}
		if err != nil || done {
			return err
		}
	}
	return missing
}

// qualified returns name as Ruby 3.4 labels a method of owner: Path#name, Path.name for a singleton method of a class or
// module, and name alone where the owner has no permanent path. final is false when a later name of the class may change it.
func (d *Decoder) qualified(owner uint64, name string) (label string, final bool, err error) {
	c, err := d.readClass(owner)
	if err != nil {
		return name, false, err
	}
	if !c.singleton {
		if c.permanent {
			return c.path + "#" + name, true, nil
		}
		return name, c.iclass, nil
	}
	flags, err := d.flags(c.attached)
	if err != nil {
		return name, false, err
	}
	if t := flags & typeMask; t != typeClass && t != typeModule {
		return name, true, nil
	}
	of, err := d.readClass(c.attached)
	if err != nil {
		return name, false, err
	}
	if of.permanent {
		return of.path + "." + name, true, nil
	}
	return name, of.singleton, nil
}

// ClassName returns the path of the class that a heap object is an instance of, singleton classes left out; ok is false
// for an anonymous class, and when value is not a heap object or can't be read.
func (d *Decoder) ClassName(value uint64) (name string, ok bool) {
	d.view.Reset()
	err := d.view.Settle(func() (err error) {
		name, err = d.className(value)
		return err
	})
	return name, err == nil && name != ""
}

func (d *Decoder) className(v uint64) (string, error) {
	if !d.isHeap(v) {
		return "", &wrongTypeError{attach.Address(v), "object", notHeap}
	}
	head, err := d.view.Bytes(attach.Address(v), basicSize)
	if err != nil {
		return "", err
	}
	if t := le64(head) & typeMask; t == typeNone || t >= typeImemo {
		return "", &wrongTypeError{attach.Address(v), "object with a class", le64(head)}
	}
	return d.firstClassName(le64(head[basicClass:]))
}

// firstClassName is the path of the class of an object whose header names first, which may be a singleton class.
func (d *Decoder) firstClassName(first uint64) (string, error) {
	if e, ok := d.classNames[first]; ok && e.generation == d.generation {
		return e.name, nil
	}
	k := first
	for range maxSupers {
		c, err := d.readClass(k)
		if err != nil {
			return "", err
		}
		if !c.singleton && !c.iclass {
			if len(d.classNames) >= maxClassNames {
				d.forgetAll()
			}
			if old, known := d.classNames[first]; known {
				d.kept -= keptEntry + len(old.name)
			}
			d.keep(keptEntry + len(c.path))
			d.classNames[first] = className{c.path, d.generation}
			return c.path, nil
		}
		at := attach.Address(k) + attach.Address(d.o.classSuper)
		if d.o.classSuper < 0 {
			at = attach.Address(k) + attach.Address(d.o.classExt+d.o.extSuper)
		}
		if k, err = d.view.Word(at); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("there are more than %d classes above the one at %#x", maxSupers, first)
}
