package heap

import "slices"

const (
	// keyCacheSize is the largest number of slots of the cache of keys. It is a power of two.
	keyCacheSize = 1 << 11
	// hashCacheSize is the largest number of slots of the cache of hashes. It is a power of two.
	hashCacheSize = 1 << 8
	// maxKeptKey bounds the text of a cached key, in bytes.
	maxKeptKey = 64
)

// keyHash is the hash of a key in a table, and the type of the table. Both are zero if the table has no hashes.
type keyHash struct{ hash, typ uint64 }

// keyCache caches the texts of Strings and Symbols that are keys.
//
// The collector can give an object's address to another object. So a key is checked by its hash, which is next to the
// key in the table. The hash of a String is made from its text (docs/internals/objects.md#tables). But a table that
// compares keys by identity makes the hash from the address. Such a hash proves nothing about the text, so the cached
// text is valid only until the next collection. The cache finds out which type of table hashes texts. Such tables can
// give two hashes to keys at one address, or one hash to keys at two addresses. Hashes of addresses never do this.
type keyCache struct {
	slots  Recent[keySlot]
	hashes Recent[hashSlot]
	// byText is the type of tables that hash the text of keys. It is zero while that type is not known.
	byText uint64
}

// keySlot caches the text of one key.
type keySlot struct {
	value uint64
	keyHash
	// cycle is the result of typeCycle when the key was read.
	cycle  uint64
	text   string
	symbol bool
	// of and many identify a list of names by the address of its first name and its length. index is the place of text
	// in this list. It is -1 if the list lacks text.
	of          *string
	many, index int
}

// hashSlot is a key with its hash and its text.
type hashSlot struct {
	keyHash
	value uint64
	text  string
}

// keyPlaces returns the two places that a key can have in the cache. With only one place each, a few keys of a table
// of 70 would always share it, and would be read again for each request. The factor is 2^64 divided by the golden
// ratio. It spreads addresses of objects, which differ by multiples of 40.
func keyPlaces(key uint64) (first, second uint64) {
	h := key * 0x9e3779b97f4a7c15
	return h >> 48, h >> 32
}

// slotOf returns the slot that keeps a key, or nil.
func (c *keyCache) slotOf(key uint64) *keySlot {
	first, second := keyPlaces(key)
	for _, place := range [...]uint64{first, second} {
		if s := c.slots.At(place); s.value == key {
			return s
		}
	}
	return nil
}

// slotFor returns the slot for a key that is not kept.
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

// knownKey does the same as keyAmong, but only from the cache. If the result known is false, i and symbol are not
// valid.
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
	// In another table, the cached text can only rule a key out. A key that may be among names is read again.
	case inCycle && s.index < 0 && (h.typ == 0 || h.typ != s.typ):
	default:
		return 0, false, false
	}
	return s.index, s.symbol, true
}
