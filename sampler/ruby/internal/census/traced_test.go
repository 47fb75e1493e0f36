package census

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// Where newTraced has the tracer's object, its type, its record and its table.
const (
	tracerAt  = 0x10000000
	typeAt    = 0x10001000
	nameAt    = 0x10002000
	recordAt  = 0x10003000
	tableAt   = 0x10004000
	entriesAt = 0x20000010 // a multiple of the size of an entry
)

// put sets the bytes at an address.
func (h *hostile) put(at attach.Address, text string) {
	for len(text)%8 != 0 {
		text += "\x00"
	}
	for i := 0; i < len(text); i += 8 {
		h.words[at+attach.Address(i)] = binary.LittleEndian.Uint64([]byte(text[i:]))
	}
}

// newTraced returns a Counter as newHostile, whose target traces allocations in a table with bound entries. The entries
// and records are made of data.
func newTraced(t testing.TB, version string, data []byte, slot uint16, bound uint64) (*Counter, *hostile) {
	c, mem := newHostile(t, version, data, slot)
	for at := attach.Address(0); at < heap.DataHeader; at += 8 {
		mem.words[tracerAt+at] = 0
	}
	mem.words[tracerAt] = heap.TypeData
	// RTypedData has the type and a flag. From 4.0 on it has another word and the type.
	mem.words[tracerAt+16], mem.words[tracerAt+24], mem.words[tracerAt+32] = typeAt, 1, recordAt
	if c.gc.Release.AtLeast(4, 0) {
		mem.words[tracerAt+16], mem.words[tracerAt+24] = 0, typeAt
	}
	mem.words[typeAt] = nameAt
	mem.put(nameAt, heap.TracerType+"\x00")
	mem.words[recordAt], mem.words[recordAt+24] = 1, tableAt
	mem.words[tableAt+32], mem.words[tableAt+40], mem.words[tableAt+48] = 0, bound, entriesAt // st_table
	c.tracer.at = tracerAt
	return c, mem
}

// FuzzTraced reads the records of a tracer from hostile memory. A count must end, within its limits, and the objects
// with a place are a part of all objects.
func FuzzTraced(f *testing.F) {
	entry := make([]byte, 64)
	for typ := range byte(32) {
		entry[0] = typ
		for i, word := range []uint64{pagesAt, recordAt, entriesAt, pagesAt + 0x50, 1} {
			binary.LittleEndian.PutUint64(entry[8+8*i:], word)
		}
		f.Add(append([]byte(nil), entry...), uint16(40), typ, uint64(100))
		f.Add(append([]byte(nil), entry[:24]...), uint16(80), typ, uint64(1)<<typ)
		f.Add(append([]byte(nil), entry[:40]...), uint16(160), typ, ^uint64(0)>>typ)
	}
	versions := []string{"2.7.8", "3.1.2", "3.3.8", "3.4.9", "4.0.5"}
	f.Fuzz(func(t *testing.T, data []byte, slot uint16, release uint8, bound uint64) {
		if len(data) > 1<<10 {
			return
		}
		bound %= 1 << 12 // TestTracedLimits has more
		c, mem := newTraced(t, versions[int(release)%len(versions)], data, slot, bound)
		out, err := c.Count(context.Background(), func() {})
		pages := maxPasses * (hostPages + 2) * (1 << 17) * 2
		entries := maxPasses * walks * int(bound) * (2*heap.TracedEntrySize + 2*heap.AllocationSize + maxGap)
		if names := 64 << 20; mem.bytes > pages+entries+names {
			t.Fatalf("%d bytes were read, more than %d and %d", mem.bytes, pages, entries)
		}
		if err != nil {
			return
		}
		if out.Traced == nil {
			t.Fatal("the tracer was not found")
		}
		objects := make(map[string]uint64)
		for i := range out.Classes {
			objects[out.Classes[i].Name] = out.Classes[i].Objects
		}
		var placed uint64
		for i := range out.Traced.Places {
			p := &out.Traced.Places[i]
			placed += p.Objects
			if p.Objects > objects[p.Class] || p.Path == "" {
				t.Fatalf("%d objects of %s at %q, of %d", p.Objects, p.Class, p.Path, objects[p.Class])
			}
		}
		if placed > out.Traced.Objects || out.Traced.Objects > out.Objects {
			t.Fatalf("%d objects at places, %d placed, %d in all", placed, out.Traced.Objects, out.Objects)
		}
	})
}

// TestTracedLimits reads a table that says that it has more entries than fit into memory. The limits end the reading.
func TestTracedLimits(t *testing.T) {
	entry := make([]byte, heap.TracedEntrySize)
	binary.LittleEndian.PutUint64(entry[8:], pagesAt)
	binary.LittleEndian.PutUint64(entry[16:], recordAt)
	for _, test := range []struct {
		name  string
		hash  uint64 // of each entry
		had   int    // records so far
		walks int    // entries
	}{
		{"records", 0, maxTraced - 5, tracedAPiece},
		{"deleted", ^uint64(0), 0, maxWalked},
	} {
		binary.LittleEndian.PutUint64(entry, test.hash)
		c, mem := newTraced(t, "3.3.8", bytes.Repeat(entry, 64), 40, ^uint64(0))
		mem.words[recordAt+32] = 1 // the line
		read := &traced{list: make([]tracedObject, test.had), siteOf: make(map[heap.Site]int32)}
		whole, err := c.walkTraced(context.Background(), read, tableAt, func() {})
		if !whole || err != nil || !read.cut {
			t.Errorf("%s: whole %v, cut %v, %v", test.name, whole, read.cut, err)
		}
		if want := min(test.had*2, maxTraced); len(read.list) != want {
			t.Errorf("%s: %d records, not %d", test.name, len(read.list), want)
		}
		if n := mem.bytes / (2 * heap.TracedEntrySize); n < test.walks || n > test.walks*11/10 {
			t.Errorf("%s: about %d entries were read, not %d", test.name, n, test.walks)
		}
	}
}

// TestTableIsRebuilt changes the head of the table between two pieces of entries, as Ruby does when it rebuilds a table
// (rebuild_table, st.c). The piece before is dropped, and the walk is not whole. A real program in TestPlacesOfMoving
// does the same, but not in every run.
func TestTableIsRebuilt(t *testing.T) {
	entry := make([]byte, heap.TracedEntrySize)
	binary.LittleEndian.PutUint64(entry[8:], pagesAt)
	binary.LittleEndian.PutUint64(entry[16:], recordAt)
	const power, bound, count = 20, 2 * tracedAPiece, 4711
	for name, rebuild := range map[string]func(words map[attach.Address]uint64){
		"":                    func(map[attach.Address]uint64) {},
		"grown":               func(w map[attach.Address]uint64) { w[tableAt+40]++ },
		"moved":               func(w map[attach.Address]uint64) { w[tableAt+48] += heap.TracedEntrySize },
		"in place":            func(w map[attach.Address]uint64) { w[tableAt] += 1 << 32 },
		"in place, its bound": func(w map[attach.Address]uint64) { w[tableAt+40]-- },
		"in place, full": func(w map[attach.Address]uint64) {
			w[tableAt], w[tableAt+16] = 1, 0 // it begins with the count
		},
	} {
		c, mem := newTraced(t, "3.3.8", bytes.Repeat(entry, 64), 40, bound)
		mem.words[recordAt+32] = 1 // the line
		mem.words[tableAt], mem.words[tableAt+16] = power, count
		read, pieces := &traced{siteOf: make(map[heap.Site]int32)}, 0
		whole, err := c.walkTraced(context.Background(), read, tableAt, func() {
			if pieces++; pieces == 1 {
				rebuild(mem.words)
			}
		})
		want := name == "" || name == "grown"
		if whole != want || err != nil || (len(read.list) > 0) != want {
			t.Errorf("%q: whole %v with %d records, %v", name, whole, len(read.list), err)
		}
	}
}
