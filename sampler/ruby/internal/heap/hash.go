package heap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// MaxPairs limits how many pairs of a Hash ddtop reads, including deleted ones.
const MaxPairs = 1 << 12

// These constants describe a Hash. A Hash of at most eight pairs is a list of pairs, and its flags have the number of
// pairs. A larger Hash has an st_table (docs/internals/objects.md#hashes).
const (
	flagLarge       = 0x8000 // FL_USER3
	smallCountShift = 16     // the bit of the flags at which the number of pairs begins; the number of used places follows
	smallBoundShift = 20
	smallMask       = 15
	maxSmall        = 8
	smallHints      = 8 // bytes of hash hints before the pairs, from 3.3 on
	pairSize        = 16
	tableEntrySize  = 24 // hash, key, record
	tableType       = 8  // offset in an st_table of the pointer to its type (the functions that compare keys)
	embeddedTable   = 64 // size of a table that follows its Hash, in bytes
)

// deletedEntry marks a deleted entry of an st_table. It is in place of the hash of the entry's key.
const deletedEntry = ^uint64(0)

// pairs is the memory of the pairs of a Hash or of another table.
type pairs struct {
	at     attach.Address
	bytes  []byte
	stride int // distance from one pair to the next, in bytes
	key    int // offset of the key in a pair; the value follows it
	// deleted reports whether the memory at a place holds no pair, for example because the pair was deleted.
	deleted func(place []byte) bool
	// hashed is true if the word before each key is the hash of the key. typ is the table's type (st_table.type), which
	// determines how hashes are made.
	hashed bool
	typ    uint64
}

// TablePlaces says where large Hashes keep their tables. The offsets are in bytes.
type TablePlaces struct {
	// Table is the offset in an RHash of its st_table if Inside is true. Otherwise it is the offset of a pointer to the
	// st_table.
	Table  int
	Inside bool
	// Entries and Bound are the offsets of two fields in an st_table: the pointer to the entries, and the number of
	// entries.
	Entries, Bound int
}

// Tables returns where large Hashes keep their tables. ok is false if this is not known for the Ruby release.
func (o *Objects) Tables() (p TablePlaces, ok bool) {
	p = TablePlaces{Table: o.places.hashTable, Entries: o.places.tableEntries, Bound: o.places.tableBound}
	if p.Table < 0 {
		p.Table, p.Inside = o.places.hashSize, true
	}
	return p, p.Table >= 0
}

// EachEntry calls f with the key and the value of each entry of an st_table, the hash table of Ruby's C code.
func EachEntry(entries []byte, f func(key, value uint64)) {
	for b := entries; len(b) >= tableEntrySize; b = b[tableEntrySize:] {
		if view.U64(b) != deletedEntry {
			f(view.U64(b[8:]), view.U64(b[16:]))
		}
	}
}

// WantCopied requests the memory that is needed to read a Hash: the Hash, its table and its entries. The view fetches
// this memory next. entries is an earlier copy of the entries, which are at the address at. For each key whose cached
// text is in names, WantCopied also requests the key's value.
func (o *Objects) WantCopied(hash uint64, table, at attach.Address, entries []byte, names []string) {
	const object = 64 // how many bytes are read of most objects
	o.View.Want(attach.Address(hash), object)
	o.View.Want(table, object)
	o.View.Want(at, len(entries))
	EachEntry(entries, func(key, value uint64) {
		if s := o.keys.slotOf(key); s != nil && o.IsObject(value) && slices.Contains(names, s.text) {
			o.View.Want(attach.Address(value), object)
		}
	})
}

// place is the address of a pair and its size in bytes. hash is the hash of the pair's key, if the table has hashes.
type place struct {
	at   attach.Address
	size int
	hash uint64
}

// hashPairs finds the pairs of a Hash. It reads at most limit pairs, including deleted ones.
func (o *Objects) hashPairs(v uint64, limit int) (pairs, error) {
	if o.places.hashTable < 0 && o.places.hashSize < 0 {
		return pairs{}, errors.New("the hashes of this release are not read")
	}
	if !o.IsObject(v) {
		return pairs{}, WrongType(attach.Address(v), "Hash", NotHeap)
	}
	addr := attach.Address(v)
	o.View.Want(addr, max(o.places.hashTable+8, o.places.hashSize+embeddedTable)) // the Hash and the bytes after it
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

// tablePairs finds the pairs of an st_table, the hash table of Ruby's C code. It reads at most limit entries, including
// deleted ones.
func (o *Objects) tablePairs(table attach.Address, limit int) (pairs, error) {
	head, err := o.View.Bytes(table, max(tableType, o.places.tableStart, o.places.tableBound, o.places.tableEntries)+8)
	if err != nil {
		return pairs{}, err
	}
	start, bound := view.U64(head[o.places.tableStart:]), view.U64(head[o.places.tableBound:])
	if start > bound || bound > 1<<40 {
		return pairs{}, fmt.Errorf("the table at %s goes from entry %d to %d", table, start, bound)
	}
	// These words change when an entry is added. Note them even if the table lacks the wanted entry. A later check then
	// shows whether the entry was added.
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

// each calls f for each pair until f returns false. If memory for one pair is missing, each continues with the next
// pair, so that one fetch can get the missing memory of all pairs.
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

// notePlace notes the memory of a pair, including its hash, so that a later check shows whether it has changed. The
// hash is included because deleting an entry changes only its hash.
func (o *witnesses) notePlace(p place) {
	if o.notes != nil {
		if b, err := o.View.Bytes(p.at, p.size); err == nil {
			o.Note(p.at, b, 0)
		}
	}
}

// EachPair calls f for the pairs of a Hash in the order in which they were added, until f returns false. It reads at
// most min(limit, MaxPairs) pairs, including deleted ones. f can be called twice for the same pair, because Read starts
// again after it has fetched missing memory (view.View).
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

// Lookup sets values[i] to the value that a Hash has for the key names[i], as a String or Symbol. It sets zero if there
// is no such key. If the Hash has both a String and a Symbol with this name as keys, Lookup uses the String's value. It
// returns an error if values may be missing, for example because the Hash has more than MaxPairs pairs.
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
	var unread error // the error of a key that could not be read; this key may be a wanted key
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

// keyAmong returns the index of a key's text in names, or -1. symbol is true if the key is a Symbol. keyAmong does not
// note the text, because the text of a String cannot change while the String is a key. So a later check needs only the
// pair.
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
		if wide(s.encoding) { // in this encoding, the same text has other bytes
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
