// Package heap reads the objects of another process's Ruby: Strings, Symbols, numbers, Arrays, Hashes, instance
// variables, a fiber's variables, classes with their names, data types (docs/internals/objects.md). It does not handle
// code, stacks or threads.
//
// Functions that return errors of package view must be called in a function that Read calls. They return
// view.ErrMissing if memory is missing. Read then fetches the memory and calls the function again. The functions read
// piece by piece while the process runs. Record notes what they read, and Unchanged reports whether all of it was true
// at one moment.
package heap

import (
	"hash/maphash"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit the caches of names.
const (
	// MaxKeptBytes limits the size of the cached names of IDs and classes, in bytes. When the names would exceed the
	// limit, all are dropped, and read again when they are needed.
	MaxKeptBytes = 8 << 20
	// keptEntry is the approximate size of a map's entry without its name, in bytes.
	keptEntry = 128
	// maxIDNames, maxClassNames and maxTypeNames bound the caches of names, in entries.
	maxIDNames    = 1 << 18
	maxClassNames = 1 << 14
	maxTypeNames  = 1 << 12
)

// Objects reads the objects of one process through View, and caches the names it has read. Its methods return errors of
// the view. If an address holds another kind of object than expected, they return the error of WrongType. It is not
// safe for concurrent use.
type Objects struct {
	variables
	typeNames map[attach.Address]string
	typeCache Recent[typeSlot]
	keys      keyCache
}

// witnesses reads words of memory and makes a list of Witness for what it reads. With this list it can check later
// whether the memory has changed.
type witnesses struct {
	View *view.View
	// seed is the seed of the witnesses' checksums. New witnesses are appended to *notes. If notes is nil, none are
	// recorded.
	seed  maphash.Seed
	notes *[]Witness
}

// values reads objects without their class: Strings, Arrays, numbers.
type values struct {
	witnesses
	places *Places
	// generation increases whenever classes may have got other names. gc is the last known state of the collector.
	generation uint32
	gc         sampler.GC
}

// symbols reads the names of IDs and Symbols, and caches them.
type symbols struct {
	values
	// VM and Symbols are the addresses of rb_vm_t and of the symbol table, rb_symbols_t.
	VM, Symbols attach.Address
	// MaxKept bounds the size of the cached names, in bytes.
	MaxKept int

	kept       int
	idNames    map[uint64]string
	classNames map[uint64]className
}

// classes reads classes, their names, constants and methods, and the shapes of their objects.
type classes struct {
	symbols
	// Shapes is the address of rb_shape_tree_t (3.3 and later). It is zero if it is not known.
	Shapes attach.Address
	shapes map[uint32]shape
}

// variables reads the instance variables of objects.
type variables struct {
	classes
	// Generic is the address of the pointer to the global table of instance variables (generic_iv_tbl_, up to 3.4). The
	// table has the variables of objects that have no room for them. Generic is zero until it is known.
	Generic attach.Address
	// Variables calls f for each word of the Ruby library's variables. ddtop needs it to find Generic if the library
	// has no symbol for Generic. If Variables is nil, ddtop does not search for Generic.
	Variables func(f func(at attach.Address, word uint64)) error

	slots      map[slotKey]slotPlace
	references []reference // used while ddtop searches for Generic
	searches   int
}

// New returns an Objects that reads through v. places are the offsets of the release's fields. vm is the address of
// rb_vm_t, and table the address of the symbol table.
func New(v *view.View, places *Places, vm, table attach.Address) *Objects {
	o := &Objects{typeNames: make(map[attach.Address]string)}
	o.View, o.places, o.VM, o.Symbols, o.MaxKept, o.seed = v, places, vm, table, MaxKeptBytes, maphash.MakeSeed()
	o.idNames, o.classNames = make(map[uint64]string), make(map[uint64]className)
	o.shapes, o.slots = make(map[uint32]shape), make(map[slotKey]slotPlace)
	return o
}

// SetGC sets the state of the target's collector. The cached types of objects are valid until the collector begins its
// next cycle.
func (o *values) SetGC(gc sampler.GC) { o.gc = gc }

// Renew makes Objects read the cached names of classes again. Call it if classes may have been freed or renamed.
func (o *values) Renew() { o.generation++ }

// keep counts n more bytes of cached names. If they would exceed MaxKept, it first drops all names.
func (o *symbols) keep(n int) {
	if o.kept+n > o.MaxKept {
		o.Forget()
	}
	o.kept += n
}

// Forget drops the names of IDs and classes.
func (o *symbols) Forget() {
	clear(o.idNames)
	clear(o.classNames)
	o.kept = 0
}

// Read calls f again and again until the view has all memory that f needs. Between two calls it fetches the missing
// memory. f reads through the view, which is empty at first.
func (o *witnesses) Read(f func() error) error {
	o.View.Reset()
	return o.View.Settle(f)
}
