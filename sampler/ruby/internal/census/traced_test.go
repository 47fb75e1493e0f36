package census

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// These constants are addresses where newTraced puts the tracer's object, its type, its record and its table.
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

// newTraced is like newHostile, but the target also traces allocations. bound is the number of entries in the tracer's
// table. Entries and records consist of the bytes in data.
func newTraced(t testing.TB, version string, data []byte, slot uint16, bound uint64) (*Counter, *hostile) {
	c, mem := newHostile(t, version, data, slot)
	for at := attach.Address(0); at < heap.DataHeader; at += 8 {
		mem.words[tracerAt+at] = 0
	}
	mem.words[tracerAt] = heap.TypeData
	// From its third word on, an RTypedData has the type, a flag and the data. From Ruby 4.0 on, it has another word,
	// the type and the data.
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

// FuzzTraced fills the tracer's records with any content. A count must end within its limits. It must not find more
// objects with a place of allocation than there are objects.
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
		bound %= 1 << 12 // TestTracedLimits has larger tables
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

// TestTracedLimits reads a table that claims to have more entries than fit into memory. The limits must end the
// reading.
func TestTracedLimits(t *testing.T) {
	entry := make([]byte, heap.TracedEntrySize)
	binary.LittleEndian.PutUint64(entry[8:], pagesAt)
	binary.LittleEndian.PutUint64(entry[16:], recordAt)
	for _, test := range []struct {
		name  string
		hash  uint64 // the hash in each entry
		want  int    // number of records that must be read
		walks int    // number of entries that must be read
	}{
		{"records", 0, maxTraced, maxTraced},
		{"deleted", ^uint64(0), 0, maxWalked},
	} {
		binary.LittleEndian.PutUint64(entry, test.hash)
		c, mem := newTraced(t, "3.3.8", bytes.Repeat(entry, 64), 40, ^uint64(0))
		mem.words[recordAt+32] = 1 // the record has the line 1
		if err := c.readTraced(context.Background(), func() {}); err != nil || c.traced == nil || !c.traced.cut {
			t.Fatalf("%s: %+v, %v", test.name, c.traced, err)
		}
		if len(c.traced.list) != test.want {
			t.Errorf("%s: %d records, not %d", test.name, len(c.traced.list), test.want)
		}
		if n := mem.bytes / (2 * heap.TracedEntrySize); n < test.walks || n > test.walks*11/10 {
			t.Errorf("%s: about %d entries were read, not %d", test.name, n, test.walks)
		}
	}
}

// TestTableIsRebuilt changes the head of the tracer's table between two pieces of entries, as Ruby does when it
// rebuilds a table (rebuild_table, st.c). The reader must drop the piece that it read before, and mark its result as
// incomplete. TestPlacesOfMoving tests this with a real program, but the table is not rebuilt in every run.
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
			w[tableAt], w[tableAt+16] = 1, 0 // Ruby sets the count to zero at the beginning of a rebuild
		},
	} {
		c, mem := newTraced(t, "3.3.8", bytes.Repeat(entry, 64), 40, bound)
		mem.words[recordAt+32] = 1 // the record has the line 1
		mem.words[tableAt], mem.words[tableAt+16] = power, count
		read, pieces, got := &traced{siteOf: make(map[heap.Site]int32), table: tableAt}, 0, 0
		end, whole, err := c.walkOnce(context.Background(), read, func() {
			if pieces++; pieces == 1 {
				rebuild(mem.words)
			}
		}, func(piece []tracedObject) bool {
			got += len(piece)
			return true
		})
		want := name == "" || name == "grown"
		if end != want || whole != want || err != nil || (got > 0) != want {
			t.Errorf("%q: at an end %v, whole %v with %d records, %v", name, end, whole, got, err)
		}
	}
}

// TestFreedRecords changes the tracer's table or a record after the records were read. Ruby makes such changes when it
// frees an object and makes another object in its place. confirm must then not find the same record again. If only the
// table around a record changed, confirm must still find the record. Freed memory can keep the content of a record for
// a long time: among millions of records, TestPlacesOfMoving found a few such records.
func TestFreedRecords(t *testing.T) {
	const power, bound, generation = 20, 4, 7
	entries := func(hash uint64) []byte {
		entry := make([]byte, heap.TracedEntrySize)
		binary.LittleEndian.PutUint64(entry, hash)
		binary.LittleEndian.PutUint64(entry[8:], pagesAt)
		binary.LittleEndian.PutUint64(entry[16:], recordAt)
		return bytes.Repeat(entry, 64)
	}
	for name, change := range map[string]func(mem *hostile){
		"":                     func(*hostile) {},
		"other entries follow": func(mem *hostile) { mem.words[tableAt+40]++ },
		"rebuilt":              func(mem *hostile) { mem.words[tableAt] += 1 << 32 },
		"freed":                func(mem *hostile) { mem.data = entries(^uint64(0)) },
		"of a later object":    func(mem *hostile) { mem.words[recordAt+56]++ },
		"of another place":     func(mem *hostile) { mem.words[recordAt+32]++ },
		"of another class":     func(mem *hostile) { mem.words[recordAt+16]++ },
	} {
		c, mem := newTraced(t, "3.3.8", entries(0), 40, bound)
		mem.words[recordAt+32], mem.words[recordAt+56] = 1, generation // the record has the line 1
		mem.words[tableAt] = power
		if err := c.readTraced(context.Background(), func() {}); err != nil || len(c.traced.list) != bound {
			t.Fatalf("%q: %+v, %v", name, c.traced, err)
		}
		change(mem)
		if err := c.confirm(context.Background(), func() {}); err != nil || c.traced.cut {
			t.Errorf("%q: cut %v, %v", name, c.traced.cut, err)
		}
		at, want := c.traced.find(pagesAt), name == "" || name == "other entries follow" || name == "rebuilt"
		if stays := c.traced.list[at].stays; stays != want {
			t.Errorf("%q: stays %v", name, stays)
		}
	}
}
