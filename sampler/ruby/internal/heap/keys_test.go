package heap

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestKnownKeys checks when ddtop trusts a cached key. It must trust the key while the key's hash proves its text.
// After a collection, a hash proves a text only if ddtop has seen that this type of table makes hashes from texts.
func TestKnownKeys(t *testing.T) {
	names := []string{"PATH_INFO", "REQUEST_METHOD"}
	const key, other, text, identity = 0x1000, 0x2000, 0x500, 0x600
	known := func(o *Objects, key uint64, h keyHash) int {
		i, _, ok := o.knownKey(key, h, names)
		if !ok {
			return -2
		}
		return i
	}
	o := &Objects{}
	cycle := func(n uint64) { o.SetGC(sampler.GC{Valid: true, Count: n}) }
	keep := func(key uint64, h keyHash, said string) { o.keys.keep(key, h, typeCycle(&o.gc), said, false) }
	check := func(what string, key uint64, h keyHash, want int) {
		t.Helper()
		if got := known(o, key, h); got != want {
			t.Errorf("%s: %d, not %d", what, got, want)
		}
	}
	cycle(1)
	h := keyHash{77, text}
	check("never read", key, h, -2)
	keep(key, h, "PATH_INFO")
	check("in this cycle", key, h, 0)
	check("with another hash", key, keyHash{78, text}, -2)
	check("in another kind of table", key, keyHash{77, identity}, -2)
	check("in a small Hash", key, keyHash{}, -2)
	if i, _, ok := o.knownKey(key, h, names[:0]); ok {
		t.Errorf("among no names: %d", i)
	}
	if i, _, ok := o.knownKey(key, h, names[1:]); !ok || i != -1 {
		t.Errorf("among others: %d %v", i, ok)
	}
	cycle(2)
	check("after a collection, of tables of which nothing is known", key, h, -2)
	keep(key, h, "PATH_INFO")
	keep(other, h, "PATH_INFO") // another object with the same text has the same hash
	cycle(3)
	check("after a collection, of tables by text", key, h, 0)
	check("its hash is another text's", key, keyHash{78, text}, -2)

	// A table that compares keys by identity makes hashes from addresses, so an address always has the same hash,
	// whatever object is there. The hash proves nothing about the text.
	h = keyHash{99, identity}
	keep(key, h, "PATH_INFO")
	keep(other, keyHash{100, identity}, "PATH_INFO")
	check("by identity, in this cycle", key, h, 0)
	cycle(4)
	keep(key, h, "REQUEST_METHOD")
	check("by identity, another text", key, h, 1)
	cycle(5)
	check("by identity, after a collection", key, h, -2)

	// While types cannot be cached, as during a collection, ddtop trusts only keys whose hashes prove their texts.
	o = &Objects{}
	h = keyHash{77, text}
	keep(key, h, "PATH_INFO")
	check("read within a collection", key, h, -2)
	keep(key, keyHash{78, text}, "HTTP_HOST") // another key is now at the same address
	check("no address has two hashes by identity", key, keyHash{78, text}, -1)
}

// TestKeysStayKnown looks up the same tables again and again. After some lookups, nearly all of their keys must be in
// the cache. If keys pushed each other out of a slot, they would be read again for each request.
func TestKeysStayKnown(t *testing.T) {
	const tables, keysOf, lookups = 50, 72, 1000
	names := []string{"PATH_INFO"}
	rng := rand.New(rand.NewPCG(7, 9))
	missing := 0
	for range tables {
		o := &Objects{}
		o.SetGC(sampler.GC{Valid: true, Count: 1})
		page := 0x7f64_3600_0000 + rng.Uint64N(1<<20)<<12
		keys := make([]uint64, keysOf)
		for i := range keys {
			keys[i] = page + rng.Uint64N(1<<22)*40
		}
		for n := range lookups {
			for i, key := range keys {
				h := keyHash{uint64(i), 0x500}
				if _, _, known := o.knownKey(key, h, names); known {
					continue
				}
				if o.keys.keep(key, h, typeCycle(&o.gc), "rack.errors", false); n == lookups-1 {
					missing++
				}
			}
		}
	}
	if most := tables * keysOf / 1000; missing > most {
		t.Errorf("%d keys of %d tables were missing in the last lookup, more than %d", missing, tables, most)
	}
}
