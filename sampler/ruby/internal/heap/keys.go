package heap

import "slices"

const (
	// keyCacheSize is the most slots of the table of objects that are keys; a power of two.
	keyCacheSize = 1 << 11
	// hashCacheSize is the same for the table of hashes of keys.
	hashCacheSize = 1 << 8
	// maxKeptKey bounds the text of a kept key, in bytes.
	maxKeptKey = 64
)

// keyHash is the hash of a key in a table, and the table's type. It is the zero value if the table has no hashes.
type keyHash struct{ hash, typ uint64 }

// keyCache keeps the texts of Strings and Symbols that are keys.
//
// The collector can give an object's address to another object. So a key is checked by its hash, which is next to it
// in the table. The hash of a String is made from its text (docs/internals/objects.md#tables). A table that compares
// keys by identity makes the hash from the address instead. Such a hash proves nothing about the text, so the key is
// believed only until the next collection. If hashes are made from addresses, no address has two hashes, and no hash
// two addresses. This shows which kind a table is.
type keyCache struct {
	slots  Recent[keySlot]
	hashes Recent[hashSlot]
	// byText is the type of tables whose hashes are made of texts. It is zero while that type is not known.
	byText uint64
}

// keySlot keeps the text of one key.
type keySlot struct {
	value uint64
	keyHash
	// cycle is the cycle of the collector in which it was read. It is zero if it was read within a collection.
	cycle  uint64
	text   string
	symbol bool
	// index is the place of text in the many names that begin at of. It is -1 if text is none of them.
	of          *string
	many, index int
}

// hashSlot is one of the keys that had a hash.
type hashSlot struct {
	keyHash
	value uint64
	text  string
}

// keyPlaces returns the two places that a key can have. With one place, a few keys of a table of 70 would always share it
// with others, and be read again for each request. The factor is 2^64 divided by the golden ratio, which is used because
// addresses of objects differ by multiples of 40.
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

// knownKey is keyAmong for a key that is kept. known is false if it is not kept. Then i and symbol mean nothing.
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
	// the earlier type does not prove that it is one of them, so it is read again
	case inCycle && s.index < 0 && (h.typ == 0 || h.typ != s.typ):
	default:
		return 0, false, false
	}
	return s.index, s.symbol, true
}
