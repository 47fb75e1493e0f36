package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit how the references of one object are followed.
const (
	// maxElements bounds the number of elements of an Array, and the number of entries of a table.
	maxElements = 1 << 28
	// maxCode bounds the size of a method's instructions, in words. maxStack bounds the size of a fiber's stack, in
	// bytes.
	maxCode, maxStack = 1 << 20, 8 << 20
	// maxEnvironment bounds the size of the variables that a block captures, in words.
	maxEnvironment = 1 << 16
	// maxFiberChain limits the number of fibers that are read for all objects.
	maxFiberChain = 1 << 17
	// maxChunk limits how much of a data object's memory is searched for references, in bytes. The size of this memory
	// is in malloc's header. If it cannot be read, guessChunk bytes are searched.
	maxChunk, guessChunk = 64 << 10, 256
	// maxAsked limits the memory that is read to find names, in bytes. A large Rails application needs a quarter of the
	// limit.
	maxAsked = 256 << 20
	// blockPiece limits the size of one Block, in bytes. Longer memory is split into several Blocks.
	blockPiece = 1 << 20
)

// BlockKind says what is in a block of memory.
type BlockKind uint8

const (
	blockWords           BlockKind = iota // each word can be a reference to an object
	blockSlots                            // references with names
	blockPairs                            // keys and values of a small Hash
	blockTable                            // an st_table
	blockEntries                          // the entries of an st_table
	blockIDTable                          // an st_table whose keys are IDs
	blockIDEntries                        // the entries of an st_table whose keys are IDs
	blockNames                            // an rb_id_table
	blockNameItems                        // the items of an rb_id_table
	blockLocals                           // an rb_id_table of a fiber's local variables
	blockLocalItems                       // the items of the table in the line above
	blockOldLocals                        // an st_table of a fiber's local variables (2.7)
	blockOldLocalEntries                  // the entries of the table in the line above
	blockConsts                           // an rb_id_table of a class's constants
	blockConstItems                       // the items of the table in the line above
	blockConst                            // an rb_const_entry_t, which has one constant
	blockExt                              // an rb_classext_t
	blockCode                             // an iseq's body
	blockEnvironment                      // the variables that a block captures; Names is the index of their flags
	blockChunk                            // the word of malloc before a data object's memory, which holds its size
	blockProc                             // the data of a Proc or a Binding
	blockThread                           // an rb_thread_t
	blockFiber                            // an rb_fiber_t
	blockFrames                           // control frames
	blockGeneric                          // the global table of instance variables (up to 3.4)
	blockGenericEntries                   // the entries of the table in the line above
	blockPointer                          // a pointer to an st_table whose keys are IDs
)

// Block is memory that an object refers to and that must be read to find more references.
type Block struct {
	At    attach.Address
	Size  int32
	Owner uint32
	Names int32 // depends on Kind: an index in References.names, or another number
	Kind  BlockKind
}

// References finds the objects to which objects refer.
type References struct {
	o *Objects
	// Edge is called with each word that may be a reference. owner is the number of the object that has the word. label
	// names the constant or variable that holds it, or is empty.
	Edge func(owner uint32, word uint64, label string)
	// Block is called with each block of memory that must be read. The caller reads it and passes it to Take.
	Block func(Block)
	// Object returns the number and the slot of the object at an address. ok is false if there is none.
	Object func(word uint64) (n uint32, slot []byte, ok bool)

	names    [][]string
	byKind   map[uint64]int32 // an index in names; the key is the ID of a shape, or the address of a class's table
	byClass  map[uint64]int32
	types    map[attach.Address]BlockKind
	fibers   map[attach.Address]bool
	stacks   [][2]uint64 // start and end of the stacks of fibers
	most     uint64      // limit for View.Fetched (see Ask)
	shared   uint64
	structs  uint64
	release4 bool
}

// NewReferences returns a References of a release. It is nil if the release is not known.
func (o *Objects) NewReferences(rel places.Release) *References {
	s := o.NewSizer(rel)
	if s == nil {
		return nil
	}
	return &References{o: o, names: make([][]string, 1), byKind: make(map[uint64]int32), byClass: make(map[uint64]int32),
		types: make(map[attach.Address]BlockKind), most: o.View.Fetched + maxAsked, fibers: make(map[attach.Address]bool), shared: s.shared, structs: s.structLen,
		release4: rel.AtLeast(4, 0)}
}

// Sizes returns the sizes of rb_vm_t and of rb_objspace in bytes.
func (r *References) Sizes() (vm, objspace int) {
	return r.o.places.vmSize &^ 7, max(0, r.o.places.objspaceSize&^7)
}

// Ask passes f, a function that reads names, to Objects.Read. If earlier calls have read more than maxAsked bytes, Ask
// returns view.ErrTooMuch instead.
func (r *References) Ask(f func() error) error {
	if r.o.View.Fetched > r.most {
		return view.ErrTooMuch
	}
	return r.o.Read(f)
}

// block passes memory to r.Block, in pieces whose sizes are multiples of stride.
func (r *References) block(owner uint32, kind BlockKind, at uint64, size, stride int, names int32) {
	if at < 4096 || at >= 1<<56 || size <= 0 || at&7 != 0 {
		return
	}
	piece := max(blockPiece/stride, 1) * stride
	for size > 0 {
		n := min(size, piece)
		r.Block(Block{attach.Address(at), int32(n), owner, names, kind})
		at, size = at+uint64(n), size-n
	}
}

// elements reads a length. It returns zero if the length is impossible. While Ruby fills a slot, the length in it can
// be any number.
func elements(at []byte) int {
	if n := view.U64(at); n <= maxElements {
		return int(n)
	}
	return 0
}

func (r *References) words(owner uint32, data []byte) {
	for ; len(data) >= word; data = data[word:] {
		r.Edge(owner, view.U64(data), "")
	}
}

func (r *References) slots(owner uint32, data []byte, names []string) {
	for i := 0; len(data) >= word; i, data = i+1, data[word:] {
		label := ""
		if i < len(names) {
			label = names[i]
		}
		r.Edge(owner, view.U64(data), label)
	}
}

// These are kinds of Ruby's internal objects (imemo_type, internal/imemo.h).
const (
	imemoShift, imemoMask                       = 12, 15
	imemoEnvironment, imemoMethod, imemoCode    = 0, 6, 7
	imemoBuffer, imemoCallInfo, imemoConstCache = 8, 11, 13
	imemoFields                                 = 14
)

// Of finds the references of the object in a slot. It passes them to Edge and Block.
func (r *References) Of(owner uint32, addr attach.Address, slot []byte) {
	p, flags := r.o.places, view.U64(slot)
	typ := flags & TypeMask
	if typ == TypeImemo {
		r.imemo(owner, addr, slot, flags)
		return
	}
	r.Edge(owner, view.U64(slot[BasicClass:]), "")
	switch typ {
	case TypeObject:
		r.object(owner, slot, flags)
	case typeClass, typeModule, typeIClass:
		r.class(owner, slot, flags)
	case TypeString:
		if flags&flagNoEmbed != 0 && flags&r.shared != 0 {
			r.Edge(owner, view.U64(slot[stringCapacity:]), "")
		}
	case typeFloat, typeBignum, TypeNone:
	case TypeArray:
		switch {
		case flags&flagEmbed != 0:
			n := int(flags >> 15 & p.arrayLenMask)
			r.words(owner, slot[basicSize:min(len(slot), basicSize+n*word)])
		case flags&r.shared != 0:
			r.Edge(owner, view.U64(slot[arrayCapacity:]), "")
		default:
			r.block(owner, blockWords, view.U64(slot[arrayCapacity+word:]), elements(slot[arrayLength:])*word, word, 0)
		}
	case TypeHash:
		r.hash(owner, slot, flags)
	case typeStruct:
		if flags&r.structs != 0 {
			r.words(owner, slot[basicSize:])
			break
		}
		r.block(owner, blockWords, view.U64(slot[structLength+word:]), elements(slot[structLength:])*word, word, 0)
		r.words(owner, slot[structLength+2*word:])
	case TypeData:
		r.data(owner, addr, slot)
	case typeFile:
		r.block(owner, blockChunk, view.U64(slot[basicSize:])-word, word, word, int32(blockWords))
	default:
		r.words(owner, slot[basicSize:])
	}
}

const typeFile = 11

func (r *References) imemo(owner uint32, addr attach.Address, slot []byte, flags uint64) {
	p := r.o.places
	switch flags >> imemoShift & imemoMask {
	case imemoCallInfo, imemoCallInfo + 1, imemoConstCache: // caches of calls and constants
		return
	case imemoEnvironment:
		at, ep := view.U64(slot[24:]), view.U64(slot[16:])
		n := min(view.U32(slot[32:]), maxEnvironment)
		r.Edge(owner, view.U64(slot[8:]), "")
		if ep >= at && ep-at < uint64(n)*word {
			r.block(owner, blockEnvironment, at, int(n)*word, word, int32((ep-at)/word))
		}
		return
	case imemoMethod:
		const definition = 56
		r.block(owner, blockWords, view.U64(slot[16:]), definition, word, 0)
	case imemoCode:
		r.block(owner, blockCode, view.U64(slot[16:]), p.bodySize&^7, blockPiece, 0)
	case imemoBuffer:
		r.block(owner, blockWords, view.U64(slot[16:]), int(min(view.U64(slot[32:]), maxCode))*word, word, 0)
	case imemoFields:
		if p.fieldsSlots < 0 {
			break
		}
		id := uint32(flags >> 32)
		switch v := r.byShape(id); {
		case id&p.shapeComplex != 0:
			r.block(owner, blockIDTable, view.U64(slot[p.fieldsTable:]), TableSize-word, blockPiece, 0)
		case flags&p.flagBehind != 0 && p.fieldsBehind >= 0:
			r.block(owner, blockSlots, view.U64(slot[p.fieldsBehind:]), len(r.names[v])*word, blockPiece, v)
		default:
			r.slots(owner, slot[p.fieldsSlots:], r.names[v])
		}
		r.Edge(owner, view.U64(slot[8:]), "")
		return
	}
	r.words(owner, slot[8:])
}

func (r *References) object(owner uint32, slot []byte, flags uint64) {
	p := r.o.places
	if p.objectCount >= 0 {
		if flags&flagEmbed != 0 {
			r.slots(owner, slot[p.objectSlots:], r.names[r.ofClass(view.U64(slot[BasicClass:]))])
			return
		}
		n := min(int(view.U32(slot[p.objectCount:])), maxIvars)
		r.block(owner, blockSlots, view.U64(slot[p.objectBehind:]), n*word, blockPiece, r.byTable(view.U64(slot[p.objectIndex:])))
		return
	}
	id := uint32(flags >> 32)
	v := r.byShape(id)
	embedded := flags&p.flagEmbedded != 0
	if p.flagBehind != 0 {
		embedded = flags&p.flagBehind == 0
	}
	switch {
	case r.complex(id):
		r.block(owner, blockIDTable, view.U64(slot[p.objectBehind:]), TableSize-word, blockPiece, 0)
	case embedded:
		n := min(len(slot), p.objectSlots+word*len(r.names[v]))
		r.slots(owner, slot[p.objectSlots:n], r.names[v])
	default:
		r.block(owner, blockSlots, view.U64(slot[p.objectBehind:]), len(r.names[v])*word, blockPiece, v)
	}
}

// complex reports whether objects of a shape have their variables in a table.
func (r *References) complex(id uint32) bool {
	p := r.o.places
	if p.shapeComplex != 0 {
		return id&p.shapeComplex != 0
	}
	return r.names[r.byShape(id)] == nil
}

// byShape returns the index in r.names of the names of a shape's instance variables. The names are nil if objects of
// this shape have their variables in a table.
func (r *References) byShape(id uint32) int32 {
	o := r.o
	return r.kind(uint64(id), func(names *[]string) error {
		s, err := o.shapeAt(id & o.places.shapeMask)
		if err != nil || o.places.shapeComplex == 0 && s.typ == o.places.typeComplex || s.slots > maxIvars {
			return err
		}
		*names = make([]string, s.slots, s.slots+1)
		var missing error
		err = o.eachShape(id, func(edge uint64, slot int) (bool, error) {
			if slot < len(*names) {
				(*names)[slot], err = o.IDName(edge)
				if err == view.ErrMissing {
					missing = err
				}
			}
			return false, nil
		})
		return view.Worst(err, missing)
	})
}

// byTable does the same as byShape, but gets the names from a class's table (up to 3.1).
func (r *References) byTable(table uint64) int32 {
	o := r.o
	return r.kind(table, func(names *[]string) error {
		*names = make([]string, 0, 8)
		return o.eachEntry(attach.Address(table), maxIvars, func(_ attach.Address, entry []byte) (bool, error) {
			index, err := o.indexOf(entry)
			if err != nil {
				return false, err
			}
			name, err := o.IDName(view.U64(entry[8:]))
			if err == view.ErrMissing {
				return false, err
			}
			for index < maxIvars && uint64(len(*names)) <= index {
				*names = append(*names, "")
			}
			if index < maxIvars {
				(*names)[index] = name
			}
			return false, nil
		})
	})
}

func (r *References) kind(key uint64, read func(names *[]string) error) int32 {
	if i, ok := r.byKind[key]; ok {
		return i
	}
	var names []string
	// Ignore the error, because a name that cannot be read stays empty. If the whole target cannot be read, the next
	// block reports this.
	_ = r.Ask(func() error { names = nil; return read(&names) })
	i := int32(len(r.names))
	r.names, r.byKind[key] = append(r.names, names), i
	return i
}

// ofClass returns the index in r.names of the names of the instance variables that a class's objects have (up to 3.1).
func (r *References) ofClass(class uint64) int32 {
	i, ok := r.byClass[class]
	if ok {
		return i
	}
	var table uint64
	o := r.o
	err := r.Ask(func() error {
		real, err := o.realClass(class)
		if err != nil {
			return err
		}
		ext, err := o.classExt(attach.Address(real))
		if err != nil {
			return err
		}
		table, err = o.View.Word(ext + attach.Address(o.places.extIvIndex))
		return err
	})
	if err == nil && table != 0 {
		i = r.byTable(table)
	}
	r.byClass[class] = i
	return i
}

func (r *References) hash(owner uint32, slot []byte, flags uint64) {
	p := r.o.places
	bound := min(int(flags>>smallBoundShift&smallMask), maxSmall)
	if p.hashSize < 0 { // this is the case up to 3.2
		r.Edge(owner, view.U64(slot[24:]), "")
		at := view.U64(slot[p.hashTable:])
		if flags&flagLarge != 0 {
			r.block(owner, blockTable, at, TableSize-word, blockPiece, 0)
		} else {
			r.block(owner, blockPairs, at, bound*pairSize, pairSize, 0)
		}
		return
	}
	r.Edge(owner, view.U64(slot[basicSize:]), "")
	if flags&flagLarge != 0 {
		r.table(owner, slot[p.hashSize:], blockEntries)
		return
	}
	at := p.hashSize + smallHints
	r.pairs(owner, slot[min(at, len(slot)):min(at+bound*pairSize, len(slot))])
}

func (r *References) pairs(owner uint32, data []byte) {
	for ; len(data) >= pairSize; data = data[pairSize:] {
		if key := view.U64(data); key != r.o.places.undef {
			r.Edge(owner, key, "")
			r.Edge(owner, view.U64(data[word:]), "")
		}
	}
}

// table requests the entries of a hash table (st_table), as a Block. data is the head of the table.
func (r *References) table(owner uint32, data []byte, kind BlockKind) {
	p := r.o.places
	if len(data) < max(p.tableStart, p.tableBound, p.tableEntries)+word {
		return
	}
	start, bound := view.U64(data[p.tableStart:]), view.U64(data[p.tableBound:])
	if start >= bound || bound > maxElements {
		return
	}
	r.block(owner, kind, view.U64(data[p.tableEntries:])+start*tableEntrySize, int(bound-start)*tableEntrySize, tableEntrySize, 0)
}
