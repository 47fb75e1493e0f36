package heap

import (
	"fmt"
	"math"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxIvars bounds how many instance variables of a class are read.
	maxIvars = 1 << 14
	// maxSupers limits how many superclasses are followed from one class.
	maxSupers = 256
)

// class has the data about a class or module that ddtop needs to name its methods.
type class struct {
	path string
	// permanent is true if the path is final. Ruby shows only final paths in the labels of methods.
	permanent bool
	// singleton is true for a singleton class. attached is then the object whose singleton class it is.
	singleton bool
	attached  uint64
	iclass    bool
}

// className is a cached name of a class, with the generation in which it was read. A name of an older generation is
// read again, because the class may have been freed and its address reused.
type className struct {
	name       string
	generation uint32
	exception  bool // true if the class is known to be Exception or a subclass
}

func (o *classes) readClass(v uint64) (class, error) {
	flags, err := o.Flags(v)
	if err != nil {
		return class{}, err
	}
	mask := TypeMask | o.places.singleton
	if o.places.extIvPtr >= 0 {
		mask |= math.MaxUint32 << 32 // the shape ID
	}
	o.noteWord(attach.Address(v), flags, mask)
	var c class
	switch flags & TypeMask {
	case typeClass:
		c.singleton = flags&o.places.singleton != 0
	case typeModule:
	case typeIClass:
		return class{iclass: true}, nil
	default:
		return class{}, WrongType(attach.Address(v), "class", flags)
	}
	switch {
	case o.places.extPath >= 0:
		err = o.readClassWords(v, &c)
	case o.places.extIvPtr >= 0:
		err = o.readClassShape(v, flags, &c)
	default:
		err = o.readClassTable(v, &c)
	}
	return c, err
}

// readClassWords reads the name of a class of Ruby 3.3 and later. In these releases the name is in fields of the
// class's rb_classext_t.
func (o *classes) readClassWords(v uint64, c *class) error {
	ext := attach.Address(v) + attach.Address(o.places.classExt)
	if c.singleton {
		var err error
		c.attached, err = o.notedWord(ext + attach.Address(o.places.extAttached))
		return err
	}
	path, err := o.notedWord(ext + attach.Address(o.places.extPath))
	if err != nil {
		return err
	}
	bits, err := o.View.Bytes(ext, o.places.extPermanent.Offset+o.places.extPermanent.Size)
	if err != nil {
		return err
	}
	if !o.IsObject(path) { // the class is anonymous
		return nil
	}
	c.permanent = o.places.extPermanent.In(bits) != 0
	c.path, err = o.Text(path)
	return err
}

// readClassShape reads the name of a class of Ruby 3.2. In this release the name is in hidden instance variables. The
// class's shape says in which slots these variables are.
func (o *classes) readClassShape(v, flags uint64, c *class) error {
	ext := attach.Address(v) + attach.Address(o.places.classExt)
	values, err := o.notedWord(ext + attach.Address(o.places.extIvPtr))
	if err != nil {
		return err
	}
	return o.eachShape(uint32(flags>>32), func(edge uint64, slot int) (bool, error) {
		at := attach.Address(values) + attach.Address(slot)*8
		return o.hiddenIvar(c, edge, func() (uint64, error) { return o.notedWord(at) })
	})
}

// readClassTable reads the name of a class up to 3.1. In these releases the name is in hidden instance variables, in a
// table of the class's rb_classext_t. The table's keys are the IDs of the variables.
func (o *classes) readClassTable(v uint64, c *class) error {
	ext, err := o.notedWord(attach.Address(v) + attach.Address(o.places.classExtPtr))
	if err != nil {
		return err
	}
	table, err := o.notedWord(attach.Address(ext) + attach.Address(o.places.extIvTbl))
	if err != nil || table == 0 {
		return err
	}
	return o.eachEntry(attach.Address(table), maxIvars, func(at attach.Address, entry []byte) (bool, error) {
		return o.hiddenIvar(c, view.U64(entry[8:]), func() (uint64, error) {
			o.Note(at, entry, 0)
			return view.U64(entry[16:]), nil
		})
	})
}

// hiddenIvar reads a hidden instance variable of a class if it holds the class's name. For a singleton class, it reads
// the variable that holds the class's object. done is true if reading further variables cannot improve c.
func (o *classes) hiddenIvar(c *class, id uint64, value func() (uint64, error)) (done bool, err error) {
	name, err := o.IDName(id)
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
		if err != nil || !o.IsObject(v) {
			return false, err
		}
		path, err := o.Text(v)
		if err != nil {
			return false, err
		}
		c.path, c.permanent = path, name == "__classpath__"
		return c.permanent, nil
	case name == "__classid__" && !c.permanent:
		// This variable is needed in 2.5 and 2.6. For a class made in C, the name is only here until the program first
		// asks for the name.
		v, err := value()
		if err != nil {
			return false, err
		}
		path, err := o.SymbolName(v)
		if err != nil {
			return false, err
		}
		c.path, c.permanent = path, true
	}
	return false, nil
}

// eachEntry calls f for the entries of an st_table, Ruby's hash table in C, until f returns done = true. An entry has a
// hash, a key and a record. If there are more than limit entries, eachEntry returns an error. If memory for one entry
// is missing, it continues with the others, so that one fetch gets all missing memory.
func (o *classes) eachEntry(table attach.Address, limit uint64, f func(at attach.Address, entry []byte) (done bool, err error)) error {
	const entrySize = 24
	size := max(o.places.tableStart, o.places.tableBound, o.places.tableEntries) + 8
	b, err := o.View.Bytes(table, size)
	if err != nil {
		return err
	}
	start, bound := view.U64(b[o.places.tableStart:]), view.U64(b[o.places.tableBound:])
	if start >= bound {
		return nil
	}
	if bound-start > limit {
		return fmt.Errorf("the table at %s has %d entries, more than %d", table, bound-start, limit)
	}
	o.Note(table+attach.Address(o.places.tableEntries), b[o.places.tableEntries:][:8], 0)
	at := attach.Address(view.U64(b[o.places.tableEntries:])) + attach.Address(start)*entrySize
	entries, err := o.View.Bytes(at, int(bound-start)*entrySize)
	if err != nil {
		return err
	}
	var missing error
	for ; len(entries) > 0; entries, at = entries[entrySize:], at+entrySize {
		if view.U64(entries) == ^uint64(0) { // the entry was deleted
			continue
		}
		done, err := f(at, entries[:entrySize])
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

// Qualified returns the label that Ruby 3.4 shows for a method of the class owner with a given name. This is Path#name,
// or Path.name for a singleton method of a class or module. If owner has no permanent path, the label is just name.
// final is false if the label can change when the class gets a name.
func (o *classes) Qualified(owner uint64, name string) (label string, final bool, err error) {
	c, err := o.readClass(owner)
	if err != nil {
		return name, false, err
	}
	if !c.singleton {
		if c.permanent {
			return c.path + "#" + name, true, nil
		}
		return name, c.iclass, nil
	}
	flags, err := o.Flags(c.attached)
	if err != nil {
		return name, false, err
	}
	if t := flags & TypeMask; t != typeClass && t != typeModule {
		return name, true, nil
	}
	of, err := o.readClass(c.attached)
	if err != nil {
		return name, false, err
	}
	if of.permanent {
		return of.path + "." + name, true, nil
	}
	return name, of.singleton, nil
}

// ClassName returns the path of a heap object's class. It skips singleton classes. ok is false if the class is
// anonymous, if value is no heap object, or if it cannot be read.
func (o *classes) ClassName(value uint64) (name string, ok bool) {
	err := o.Read(func() (err error) {
		name, err = o.ClassOf(value)
		return err
	})
	return name, err == nil && name != ""
}

// ClassOf does the same as ClassName, but must be called in a function that Read calls. The name is empty for an
// anonymous class.
func (o *classes) ClassOf(v uint64) (string, error) {
	if !o.IsObject(v) {
		return "", WrongType(attach.Address(v), "object", NotHeap)
	}
	head, err := o.View.Bytes(attach.Address(v), basicSize)
	if err != nil {
		return "", err
	}
	if t := view.U64(head) & TypeMask; t == TypeNone || t >= TypeImemo {
		return "", WrongType(attach.Address(v), "object with a class", view.U64(head))
	}
	return o.classPath(view.U64(head[BasicClass:]))
}

// PathOfClass returns the path of a class or module. The second result is false if v is not a class or module. Call
// PathOfClass in a function that Read calls.
func (o *classes) PathOfClass(v uint64) (path string, is bool, err error) {
	flags, err := o.Flags(v)
	if err != nil {
		return "", false, err
	}
	if t := flags & TypeMask; t != typeClass && t != typeModule {
		return "", false, nil
	}
	path, err = o.classPath(v)
	return path, true, err
}

// NameOrKind does the same as ClassPath, but returns a placeholder for a class that is anonymous or cannot be read.
func (o *classes) NameOrKind(first uint64) string {
	switch path, err := o.ClassPath(first); {
	case err != nil:
		return sampler.AllocUnknown
	case path == "":
		return sampler.AllocAnonymous
	default:
		return path
	}
}

// ClassPath returns the path of an object's class. The parameter first is the class pointer in the object's header,
// which may refer to a singleton class. The path is empty for an anonymous class.
func (o *classes) ClassPath(first uint64) (path string, err error) {
	err = o.Read(func() (err error) {
		path, err = o.classPath(first)
		return err
	})
	return path, err
}

func (o *classes) classPath(first uint64) (string, error) {
	if e, ok := o.classNames[first]; ok && e.generation == o.generation {
		return e.name, nil
	}
	k := first
	for range maxSupers {
		c, err := o.readClass(k)
		if err != nil {
			return "", err
		}
		if !c.singleton && !c.iclass {
			if len(o.classNames) >= maxClassNames {
				o.Forget()
			}
			if old, known := o.classNames[first]; known {
				o.kept -= keptEntry + len(old.name)
			}
			o.keep(keptEntry + len(c.path))
			o.classNames[first] = className{name: c.path, generation: o.generation}
			return c.path, nil
		}
		if k, err = o.superOf(k); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("there are more than %d classes above the one at %#x", maxSupers, first)
}

// Exception reports whether an object is an Exception or an instance of a subclass. Call it in a function that Read
// calls.
func (o *Objects) Exception(v uint64) (bool, error) {
	k, err := o.View.Word(attach.Address(v) + BasicClass)
	if err != nil {
		return false, err
	}
	first := k
	if e := o.classNames[first]; e.exception && e.generation == o.generation {
		return true, nil
	}
	for range maxSupers {
		path, err := o.classPath(k)
		if err != nil {
			return false, err
		}
		if path == "Exception" {
			if e, ok := o.classNames[first]; ok {
				e.exception = true
				o.classNames[first] = e
			}
			return true, nil
		}
		if k, err = o.superOf(k); err != nil || k == 0 {
			return false, err
		}
	}
	return false, nil
}

func (o *classes) superOf(class uint64) (uint64, error) {
	at := attach.Address(class) + attach.Address(o.places.classSuper)
	if o.places.classSuper < 0 {
		at = attach.Address(class) + attach.Address(o.places.classExt+o.places.extSuper)
	}
	return o.View.Word(at)
}
