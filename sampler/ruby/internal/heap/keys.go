package heap

import "slices"

const (
	// keyCacheSize is the largest number of slots of the cache of keys. It is a power of two.
	keyCacheSize = 1 << 11
	// hashCacheSize is the largest number of slots of the cache of hashes. It is a power of two.
	hashCacheSize = 1 << 8
	// maxKeptKey bounds the length of the text of a cached key, in bytes.
	maxKeptKey = 64
)

// keyHash has the hash that a table stores for a key, and the type of the table. Both are zero if the table stores no
// hashes.
type keyHash struct{ hash, typ uint64 }

// keyCache caches the texts of Strings and Symbols that are keys of Hashes.
//
// The collector can free a key and put another object at its address. So ddtop checks a cached key by its hash, which
// is next to the key in the table. The hash of a String is made from its text (docs/internals/objects.md#tables), so it
// proves the text. But a table that compares keys by identity makes hashes from the keys' addresses. Such a hash proves
// nothing about the text, so the cached text is valid only until the next collection. keyCache learns which type of
// table makes hashes from texts. Only in such tables can one address have two hashes, or two addresses the same hash.
type keyCache struct {
	slots  Recent[keySlot]
	hashes Recent[hashSlot]
	// byText is the type of the tables that make hashes from texts. It is zero until this type is known.
	byText uint64
}

// keySlot caches the text of one key.
type keySlot struct {
	value uint64
	keyHash
	// cycle is the cycle of the collector (typeCycle) in which the key was read.
	cycle  uint64
	text   string
	symbol bool
	// The fields of and many identify the list of names in which ddtop last searched for text: the address of the first
	// name, and the number of names. index is the index of text in this list, or -1.
	of          *string
	many, index int
}

// hashSlot caches, for a hash, the last key and text that had this hash.
type hashSlot struct {
	keyHash
	value uint64
	text  string
}

// keyPlaces returns the two slots that a key can have in the cache. With only one slot, a few keys of a table of 70
// would share a slot, and would be read again for each request. The factor is 2^64 divided by the golden ratio. It
// spreads the addresses of objects, which differ by multiples of 40, over the slots.
func keyPlaces(key uint64) (first, second uint64) {
	h := key * 0x9e3779b97f4a7c15
	return h >> 48, h >> 32
}

// slotOf returns the slot of a cached key, or nil.
func (c *keyCache) slotOf(key uint64) *keySlot {
	first, second := keyPlaces(key)
	for _, place := range [...]uint64{first, second} {
		if s := c.slots.At(place); s.value == key {
			return s
		}
	}
	return nil
}

// slotFor returns a slot for a key that is not in the cache yet.
func (c *keyCache) slotFor(key uint64) *keySlot {
	first, second := keyPlaces(key)
	if s := c.slots.At(first); s.value == 0 {
		return s
	}
	if s := c.slots.At(second); s.value == 0 {
		return s
	}
	return c.slots.Lose(first, keyCacheSize)
}

func (c *keyCache) keep(key uint64, h keyHash, cycle uint64, text string, symbol bool) {
	s := c.slotOf(key)
	if s == nil {
		s = c.slotFor(key)
	}
	if h.typ != 0 && !symbol {
		place := h.hash ^ h.hash>>13
		same := c.hashes.At(place)
		if s.value == key && s.typ == h.typ && s.hash != h.hash && !s.symbol ||
			same.keyHash == h && same.value != key && same.text == text {
			c.byText = h.typ
		}
		if same.typ != 0 && same.keyHash != h {
			same = c.hashes.Lose(place, hashCacheSize)
		}
		*same = hashSlot{h, key, text}
	}
	*s = keySlot{value: key, keyHash: h, cycle: cycle, text: text, symbol: symbol}
}

// knownKey does the same as keyAmong, but uses only the cache. known is false if the cache does not have the answer. In
// this case i and symbol are not valid.
func (o *Objects) knownKey(key uint64, h keyHash, names []string) (i int, symbol, known bool) {
	s := o.keys.slotOf(key)
	if s == nil || len(names) == 0 {
		return 0, false, false
	}
	inCycle := s.cycle != 0 && s.cycle == typeCycle(&o.gc)
	if s.of != &names[0] || s.many != len(names) {
		s.of, s.many, s.index = &names[0], len(names), slices.Index(names, s.text)
	}
	switch {
	case h.typ != 0 && s.keyHash == h && (inCycle || h.typ == o.keys.byText && !s.symbol):
	// If the key was cached from another type of table, the hashes cannot be compared. Within the same cycle, the
	// cached text can still show that the key is not in names. If the key may be in names, it is read again.
	case inCycle && s.index < 0 && (h.typ == 0 || h.typ != s.typ):
	default:
		return 0, false, false
	}
	return s.index, s.symbol, true
}
