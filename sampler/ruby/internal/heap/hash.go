package heap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// MaxPairs bounds the places of a Hash that are searched, including places of deleted pairs.
const MaxPairs = 1 << 12

// A Hash of at most eight pairs is a list of pairs, whose number is in its flags. A larger Hash has an st_table
// (docs/internals/objects.md#hashes).
const (
	flagLarge       = 0x8000 // FL_USER3
	smallCountShift = 16     // place of the number of pairs; the number of used places follows
	smallBoundShift = 20
	smallMask       = 15
	maxSmall        = 8
	smallHints      = 8 // bytes before the pairs, from 3.3 on
	pairSize        = 16
	tableEntrySize  = 24 // hash, key, record
	tableType       = 8  // place in an st_table of the functions that compare keys
	embeddedTable   = 64 // of a table behind its Hash, in bytes
)

// deletedEntry is the hash of a deleted entry of an st_table.
const deletedEntry = ^uint64(0)

// pairs are the places in memory of the pairs of a Hash or of another table.
type pairs struct {
	at     attach.Address
	bytes  []byte
	stride int // of a place, in bytes
	key    int // place of the key in a pair; the value follows
	// deleted says that a place holds none.
	deleted func(place []byte) bool
	// hashed is true if the word before the key is its hash, as the table's type makes it (st_table.type).
	hashed bool
	typ    uint64
}

// TablePlaces are places in memory of the tables of large Hashes, in bytes.
type TablePlaces struct {
	// Table is the place in an RHash of its st_table, or of the pointer to it if Inside is false.
	Table  int
	Inside bool
	// Entries and Bound are the places in an st_table of the pointer to the entries, and of their number.
	Entries, Bound int
}

// Tables returns the places of the tables of large Hashes. ok is false if this release's are not known.
func (o *Objects) Tables() (p TablePlaces, ok bool) {
	p = TablePlaces{Table: o.places.hashTable, Entries: o.places.tableEntries, Bound: o.places.tableBound}
	if p.Table < 0 {
		p.Table, p.Inside = o.places.hashSize, true
	}
	return p, p.Table >= 0
}

// EachEntry calls f with the key and the value of each entry of an st_table.
func EachEntry(entries []byte, f func(key, value uint64)) {
	for b := entries; len(b) >= tableEntrySize; b = b[tableEntrySize:] {
		if view.U64(b) != deletedEntry {
			f(view.U64(b[8:]), view.U64(b[16:]))
		}
	}
}

// WantCopied makes the next fetch read a Hash whose table was copied with its entries. It also makes it read the
// values for those names whose keys are known.
func (o *Objects) WantCopied(hash uint64, table, at attach.Address, entries []byte, names []string) {
	const object = 64 // most of what is read of an object
	o.View.Want(attach.Address(hash), object)
	o.View.Want(table, object)
	o.View.Want(at, len(entries))
	EachEntry(entries, func(key, value uint64) {
		if s := o.keys.slotOf(key); s != nil && o.IsObject(value) && slices.Contains(names, s.text) {
			o.View.Want(attach.Address(value), object)
		}
	})
}

// place is the place and size of a pair, in bytes, and of its key's hash if the table has one.
type place struct {
	at   attach.Address
	size int
	hash uint64
}

// hashPairs finds the pairs of a Hash, at most limit places of them.
func (o *Objects) hashPairs(v uint64, limit int) (pairs, error) {
	if o.places.hashTable < 0 && o.places.hashSize < 0 {
		return pairs{}, errors.New("the hashes of this release are not read")
	}
	if !o.IsObject(v) {
		return pairs{}, WrongType(attach.Address(v), "Hash", NotHeap)
	}
	addr := attach.Address(v)
	o.View.Want(addr, max(o.places.hashTable+8, o.places.hashSize+embeddedTable)) // with what follows
	flags, err := o.View.Word(addr)
	if err != nil {
		return pairs{}, err
	}
	if flags&TypeMask != TypeHash {
		return pairs{}, WrongType(addr, "Hash", flags)
	}
	o.noteWord(addr, flags, TypeMask|flagLarge|(smallMask<<smallCountShift)|(smallMask<<smallBoundShift))
	at := addr + attach.Address(o.places.hashSize)
	if o.places.hashTable >= 0 {
		w, err := o.notedWord(addr + attach.Address(o.places.hashTable))
		if err != nil || w == 0 {
			return pairs{}, err
		}
		at = attach.Address(w)
	}
	if flags&flagLarge != 0 {
		return o.tablePairs(at, limit)
	}
	n := int(flags >> smallBoundShift & smallMask)
	if n > maxSmall {
		return pairs{}, WrongType(addr, "Hash", flags)
	}
	if o.places.hashSize >= 0 {
		at += smallHints
	}
	n = min(n, limit)
	b, err := o.View.Bytes(at, n*pairSize)
	undef := o.places.undef
	return pairs{at: at, bytes: b, stride: pairSize, deleted: func(place []byte) bool { return view.U64(place) == undef }}, err
}

// tablePairs finds the pairs of an st_table, at most limit places of them.
func (o *Objects) tablePairs(table attach.Address, limit int) (pairs, error) {
	head, err := o.View.Bytes(table, max(tableType, o.places.tableStart, o.places.tableBound, o.places.tableEntries)+8)
	if err != nil {
		return pairs{}, err
	}
	start, bound := view.U64(head[o.places.tableStart:]), view.U64(head[o.places.tableBound:])
	if start > bound || bound > 1<<40 {
		return pairs{}, fmt.Errorf("the table at %s goes from entry %d to %d", table, start, bound)
	}
	// Its entries and their number: what a lookup did not find may be added.
	for _, at := range [...]int{tableType, o.places.tableStart, o.places.tableEntries} {
		o.Note(table+attach.Address(at), head[at:][:8], 0)
	}
	o.noteGrowing(table+attach.Address(o.places.tableBound), bound)
	if start == bound {
		return pairs{}, nil
	}
	at := attach.Address(view.U64(head[o.places.tableEntries:])) + attach.Address(start)*tableEntrySize
	b, err := o.View.Bytes(at, int(min(bound-start, uint64(limit)))*tableEntrySize)
	return pairs{at: at, bytes: b, stride: tableEntrySize, key: 8, deleted: func(place []byte) bool { return view.U64(place) == deletedEntry },
		hashed: true, typ: view.U64(head[tableType:])}, err
}

// each calls f for each pair until f returns false. If memory is missing for one pair, each continues with the next
// ones, so that all missing memory is fetched at once.
func (p pairs) each(f func(at place, key, value uint64) (more bool, err error)) error {
	var missing error
	for i := 0; i < len(p.bytes); i += p.stride {
		b := p.bytes[i : i+p.stride]
		if p.deleted(b) {
			continue
		}
		more, err := f(place{p.at + attach.Address(i), p.stride, view.U64(b)}, view.U64(b[p.key:]), view.U64(b[p.key+8:]))
		if err == view.ErrMissing {
			missing = err
			continue
		}
		if err != nil || !more {
			return err
		}
	}
	return missing
}

// notePlace writes down the place of a pair. A deleted pair keeps key and value.
func (o *witnesses) notePlace(p place) {
	if o.notes != nil {
		if b, err := o.View.Bytes(p.at, p.size); err == nil {
			o.Note(p.at, b, 0)
		}
	}
}

// EachPair calls f for the pairs of a Hash in the order in which they were added, until f returns false. It reads at
// most limit entries, or MaxPairs, including entries of deleted pairs. If f or EachPair lacks memory, f is called
// again after the memory was read (view.View).
func (o *Objects) EachPair(hash uint64, limit int, f func(key, value uint64) (more bool, err error)) error {
	p, err := o.hashPairs(hash, min(limit, MaxPairs))
	if err != nil {
		return err
	}
	return p.each(func(at place, key, value uint64) (bool, error) {
		o.notePlace(at)
		return f(key, value)
	})
}

// Lookup sets values[i] to the value that a Hash has for the String or Symbol names[i], or to zero if it has none. If
// a String and a Symbol have the same name, the String counts. An error means that the answer is not known, for
// example because the Hash has more than MaxPairs.
func (o *Objects) Lookup(hash uint64, names []string, values []uint64) error {
	clear(values)
	p, err := o.hashPairs(hash, MaxPairs)
	if err != nil {
		return err
	}
	if p.stride > 0 && len(p.bytes) >= MaxPairs*p.stride {
		return fmt.Errorf("the Hash at %#x has more than %d pairs", hash, MaxPairs)
	}
	byString := 0
	var unread error // of a key, which may be a wanted one
	err = p.each(func(at place, key, value uint64) (bool, error) {
		h := keyHash{hash: at.hash, typ: p.typ}
		if !p.hashed {
			h = keyHash{}
		}
		i, symbol, known := o.knownKey(key, h, names)
		var err error
		if !known {
			err = o.quietly(func() (err error) {
				i, symbol, err = o.keyAmong(key, h, names)
				return err
			})
		}
		if err != nil {
			if err == view.ErrMissing || Displaced(err) {
				return false, err
			}
			if view.CantTell(err) {
				unread = cmp.Or(unread, err)
			}
			return true, nil
		}
		if i < 0 || symbol && values[i] != 0 {
			return true, nil
		}
		values[i] = value
		o.notePlace(at)
		if !symbol {
			byString++
		}
		return byString < len(names), nil
	})
	if err == nil && byString < len(names) {
		err = unread
	}
	return err
}

// keyAmong returns the index of a key among names, or -1. symbol is true if the key is a Symbol. A String's text does
// not change while it is a key. So it is enough to watch the pair, without the text.
func (o *Objects) keyAmong(key uint64, h keyHash, names []string) (i int, symbol bool, err error) {
	if key&symbolMask == symbolTag {
		name, err := o.IDName(key >> symbolShift)
		return slices.Index(names, name), true, err
	}
	if !o.IsObject(key) {
		return -1, false, nil
	}
	flags, err := o.Flags(key)
	if err != nil {
		return -1, false, err
	}
	var text []byte
	switch flags & TypeMask {
	case TypeSymbol:
		name, err := o.SymbolName(key)
		if err != nil {
			return -1, false, err
		}
		text, symbol = []byte(name), true
	case TypeString:
		n, err := o.stringLength(key, flags)
		if err != nil {
			return -1, false, err
		}
		if n > maxKeptKey && !slices.ContainsFunc(names, func(name string) bool { return uint64(len(name)) == n }) {
			return -1, false, nil
		}
		s, err := o.rawString(key)
		if err != nil {
			return -1, false, err
		}
		if wide(s.encoding) { // the same bytes are another text
			return -1, false, nil
		}
		text = s.bytes
	default:
		return -1, false, nil
	}
	if len(text) <= maxKeptKey {
		o.keys.keep(key, h, typeCycle(&o.gc), string(text), symbol)
	}
	return slices.Index(names, string(text)), symbol, nil
}
