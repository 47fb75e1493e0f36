package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These are types of objects that only this file and its callers need.
const (
	typeStruct   = 9
	typeRational = 15
	typeComplex  = 14
	// TypeZombie is the type of an object whose finalizer must still run.
	TypeZombie = 29
)

// TypeNames are the names of types, by the number of the type. ObjectSpace.count_objects uses the same names.
var TypeNames = [TypeMask + 1]string{
	TypeNone: "FREE", TypeObject: "T_OBJECT", typeClass: "T_CLASS", typeModule: "T_MODULE", typeFloat: "T_FLOAT", TypeString: "T_STRING",
	6: "T_REGEXP", TypeArray: "T_ARRAY", TypeHash: "T_HASH", typeStruct: "T_STRUCT", typeBignum: "T_BIGNUM", 11: "T_FILE",
	TypeData: "T_DATA", 13: "T_MATCH", typeComplex: "T_COMPLEX", typeRational: "T_RATIONAL", TypeSymbol: "T_SYMBOL", TypeImemo: "T_IMEMO",
	27: "T_NODE", typeIClass: "T_ICLASS", TypeZombie: "T_ZOMBIE", TypeMoved: "T_MOVED",
}

// CarriesClasses reports whether objects of a type are classes or modules. Each has a singleton class of its own.
func CarriesClasses(typ uint64) bool { return typ == typeClass || typ == typeModule }

// maxOwn limits the memory that one object can have outside its slot, in bytes or elements. A larger number means that
// the slot changed during the reading, or that its content is forged.
const maxOwn = 1 << 40

// Sizer computes how much memory an object has outside its slot, as ObjectSpace.memsize_of does (gc.c, string.c,
// array.c, hash.c, st.c, struct.c, bignum.c). It needs only the content of the object's slot.
type Sizer struct {
	o *Objects
	// Old is a mask of flags. The collector counts an object as old if all these flags are set.
	Old uint64

	shared, sharedRoot, structLen uint64
	numbered                      bool // the object's slot holds its number of variables (up to 3.1)
	hash, hashHeader              int
	capacities                    map[uint32]int
}

// sizedFrom and sizedBefore are the releases for which Sizer works: from sizedFrom on, up to but not including
// sizedBefore.
var (
	sizedFrom   = [2]int{2, 7}
	sizedBefore = [2]int{4, 1}
)

// NewSizer returns the Sizer of a release. It is nil if the release is not known.
func (o *Objects) NewSizer(rel places.Release) *Sizer {
	if !rel.AtLeast(sizedFrom[0], sizedFrom[1]) || rel.AtLeast(sizedBefore[0], sizedBefore[1]) {
		return nil
	}
	s := &Sizer{o: o, Old: 0x60, shared: 0x4000, sharedRoot: 1 << 17, structLen: 0x6000, numbered: o.places.objectCount >= 0,
		hash: hashPointer, hashHeader: tableHeader, capacities: make(map[uint32]int)}
	if rel.AtLeast(3, 2) {
		s.sharedRoot = 1 << 24 // RARRAY_SHARED_ROOT_FLAG is FL_USER5 up to 3.1, and FL_USER12 from 3.2 on
	}
	if rel.AtLeast(3, 3) {
		s.Old, s.structLen, s.hash, s.hashHeader = 0x20, 0xfe000, o.places.hashSize, 0
	}
	if rel.AtLeast(3, 4) {
		s.shared = 0x1000 // ELTS_SHARED is FL_USER2 up to 3.3, and FL_USER0 from 3.4 on
	}
	return s
}

// These are offsets and sizes, in bytes, of memory that objects have outside their slot. They are the same from 2.7 to
// 4.0.
const (
	stringCapacity = 32
	arrayLength    = 16
	arrayCapacity  = 24
	structLength   = 16
	bignumLength   = 16
	hashPointer    = 16
	// smallTable is the size of the list of eight pairs that a small Hash has, up to 3.2. tableHeader is the size of an
	// st_table.
	smallTable  = 128
	tableHeader = 56
	// TableSize is how many bytes of an st_table (a hash table) Sizer.Table needs.
	TableSize = 64
	// flagNoFree is set on a String that must not free its bytes, because they do not belong to it (STR_NOFREE,
	// FL_USER18).
	flagNoFree = 1 << 30
	// flagBignumEmbed is set on a Bignum whose digits are in its slot (FL_USER2).
	flagBignumEmbed = 0x4000
	digitBytes      = 4
	word            = 8
)

// Own is the memory of an object outside its slot.
type Own struct {
	Bytes uint64
	// Table is the address of a hash table (st_table) that also belongs to the object. It is zero if the object has
	// none. Sizer.Table computes the table's size.
	Table attach.Address
	// Unknown means that the object may have more memory, of unknown size.
	Unknown bool
}

// Of returns the memory that the object in a slot has outside the slot.
func (s *Sizer) Of(slot []byte) Own {
	if len(slot) < 40 {
		return Own{Unknown: true} // all known releases have larger slots
	}
	flags := view.U64(slot)
	n, unit := uint64(0), uint64(word)
	switch flags & TypeMask {
	case typeFloat, TypeSymbol, typeRational, typeComplex:
		return Own{}
	case TypeString:
		if flags&flagNoEmbed == 0 || flags&(s.shared|flagNoFree) != 0 {
			return Own{}
		}
		n, unit = view.U64(slot[stringCapacity:])+terminator(int(flags>>encodingShift&encodingMask)), 1
	case TypeArray:
		switch {
		case flags&(flagEmbed|s.shared) != 0:
			return Own{}
		case flags&s.sharedRoot != 0:
			n = view.U64(slot[arrayLength:])
		default:
			n = view.U64(slot[arrayCapacity:])
		}
	case typeStruct:
		if flags&s.structLen != 0 {
			return Own{}
		}
		n = view.U64(slot[structLength:])
	case typeBignum:
		if flags&flagBignumEmbed != 0 {
			return Own{}
		}
		n, unit = view.U64(slot[bignumLength:]), digitBytes
	case TypeHash:
		return s.hashOwn(slot, flags)
	case TypeObject:
		return s.objectOwn(slot, flags)
	default:
		return Own{Unknown: true}
	}
	if n > maxOwn {
		return Own{Unknown: true}
	}
	return Own{Bytes: n * unit}
}

// terminator returns the number of zero bytes that end a String in this encoding.
func terminator(encoding int) uint64 {
	switch encoding {
	case encUTF16BE, encUTF16LE, encUTF16:
		return 2
	case encUTF32BE, encUTF32LE, encUTF32:
		return 4
	}
	return 1
}

func (s *Sizer) hashOwn(slot []byte, flags uint64) Own {
	if s.hashHeader == 0 { // the table is in the slot
		if flags&flagLarge == 0 {
			return Own{}
		}
		if len(slot) < s.hash+TableSize-word {
			return Own{Unknown: true}
		}
		return s.Table(slot[s.hash:])
	}
	table := view.U64(slot[s.hash:])
	switch {
	case table == 0:
		return Own{}
	case flags&flagLarge == 0:
		return Own{Bytes: smallTable}
	}
	return Own{Table: attach.Address(table)}
}

// Table returns the memory of a hash table (st_table): its entries and its bins. It includes the table's header, unless
// the header is in the object's slot.
func (s *Sizer) Table(table []byte) Own {
	const maxPower = 36 // the entries would need more than a TB
	p := s.o.places
	// In all releases, entry_power is the first byte of an st_table.
	entries, bins, size := table[0], table[p.tableBinPower], table[p.tableBinSize]
	if entries > maxPower || bins > maxPower+1 || size > 3 {
		return Own{Unknown: true}
	}
	n := uint64(tableEntrySize)<<entries + uint64(s.hashHeader)
	if p.tableBins >= 0 && view.U64(table[p.tableBins:]) != 0 {
		n += (uint64(1)<<bins<<size + word - 1) &^ (word - 1)
	}
	return Own{Bytes: n}
}

func (s *Sizer) objectOwn(slot []byte, flags uint64) Own {
	embedded := flags&flagEmbed != 0
	if behind := s.o.places.flagBehind; behind != 0 { // 4.0
		embedded = flags&behind == 0
	}
	if embedded {
		return Own{}
	}
	if s.numbered {
		return Own{Bytes: word * uint64(view.U32(slot[s.o.places.objectCount:]))}
	}
	id := uint32(flags >> 32)
	n, known := s.capacities[id]
	if !known {
		n = s.o.capacity(id)
		if len(s.capacities) < maxKeptShapes {
			s.capacities[id] = n
		}
	}
	if n < 0 {
		return Own{Unknown: true}
	}
	return Own{Bytes: word * uint64(n)}
}

// capacity returns the largest number of variables that an object with a given shape can have outside its slot. It
// returns -1 if the variables are in a table, or if the shape cannot be read.
func (o *classes) capacity(id uint32) int {
	if id&o.places.shapeComplex != 0 {
		return -1
	}
	var s shape
	err := o.Read(func() (err error) {
		s, err = o.shapeAt(id & o.places.shapeMask)
		return err
	})
	if err != nil || s.typ == o.places.typeComplex || s.capacity > maxIvars {
		return -1
	}
	return s.capacity
}
