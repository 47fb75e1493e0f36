package census

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// TestWordTable puts more class words into a wordTable than there is room for. A class word is the word in an object
// that points to the object's class. All objects must still be counted. Objects whose class word has no place in the
// table must count as others.
func TestWordTable(t *testing.T) {
	var w wordTable
	const more, rounds, scale = 1000, 3, 0x28
	for range 2 {
		w.reset()
		for range rounds {
			for i := range uint64(sampler.MaxHeapWords + more) {
				w.kind(i*scale).Objects++
			}
		}
		for i := range w.kinds {
			if w.kinds[i].Objects != rounds {
				t.Fatalf("word %#x has %d objects", w.keys[i], w.kinds[i].Objects)
			}
		}
		if len(w.keys) != sampler.MaxHeapWords || w.others.Objects != rounds*more {
			t.Fatalf("%d words, %d others", len(w.keys), w.others.Objects)
		}
	}
}

// hostile is a fake memory of a target. It repeats the bytes of data everywhere, except at the addresses in words. Some
// of its pages cannot be read.
type hostile struct {
	data  []byte
	words map[attach.Address]uint64
	bytes int
}

func (h *hostile) Read(addr attach.Address, buf []byte) error {
	h.bytes += len(buf)
	if len(h.data) == 0 || h.data[uint64(addr>>12)%uint64(len(h.data))] == 0xff {
		return errors.New("not there")
	}
	for i := 0; i < len(buf); {
		i += copy(buf[i:], h.data[(uint64(addr)+uint64(i))%uint64(len(h.data)):])
	}
	for at, word := range h.words {
		if at >= addr && at+8 <= addr+attach.Address(len(buf)) {
			binary.LittleEndian.PutUint64(buf[at-addr:], word)
		}
	}
	return nil
}

func (h *hostile) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		ranges[i].Failed = h.Read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	return 1, nil
}

const (
	objspace  = 0x100000
	listAt    = 0x200000
	headersAt = 0x300000
	pagesAt   = 0x400000
	hostPages = 70
)

// newHostile returns a Counter of an invented heap. The heap's pages, classes and tables consist of the bytes in data.
// Only the list of pages, the address of each page, and what says that a page is in use are right.
func newHostile(t testing.TB, version string, data []byte, slot uint16) (*Counter, *hostile) {
	table, _, err := layout.For(version, "x86_64", false)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := places.ParseRelease(version)
	if err != nil {
		t.Fatal(err)
	}
	mem := &hostile{data: data, words: make(map[attach.Address]uint64)}
	place := func(name string) attach.Address {
		f, ok := table.Field(name)
		if !ok {
			t.Fatalf("%s lacks %s", version, name)
		}
		return attach.Address(f.Offset)
	}
	list := attach.Address(listAt)
	mem.words[objspace+place("rb_objspace.heap_pages.sorted")] = listAt
	if rel.AtLeast(3, 4) {
		mem.words[listAt] = hostPages
		list += 16
	} else {
		mem.words[objspace+place("rb_objspace.heap_pages.allocated_pages")] = hostPages
	}
	marks, _ := table.Field("heap_page.mark_bits")
	node := attach.Address(marks.Offset - marks.Size - 16)
	const header = 0x1000
	for i := range attach.Address(hostPages) {
		at := headersAt + i*header
		mem.words[list+8*i] = uint64(at)
		page := pagesAt + i*0x10000
		mem.words[page] = uint64(at)
		mem.words[at+place("heap_page.start")] = uint64(page + 40)
		mem.words[at+node] = uint64(at) // the page is linked with other pages
		// The first word of a page's header has the number of slots. If the slots can have other sizes than 40 bytes,
		// it also has their size.
		counts := uint64(0x4000 / 40)
		if rel.AtLeast(3, 1) {
			counts = uint64(slot) | uint64(0x4000/max(slot, 1))<<16
		}
		mem.words[at] = counts
	}
	for _, pools := range []string{"rb_objspace.size_pools", "rb_objspace.heaps"} {
		if f, ok := table.Field(pools); ok {
			// with any other size, ddtop would not recognize Ruby's own collector
			mem.words[objspace+attach.Address(f.Offset)] = 40
		}
	}
	var p heap.Places
	if err := places.Resolve(table, rel, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Complete(rel); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	objects := heap.New(view.New(mem), &p, 0x1000, 0x2000)
	g := gc.New(gc.Target{Mem: mem, Table: table, Release: rel, VM: 0x1000, Objspace: objspace, Objects: objects,
		Now: func() int64 { now++; return now }, Reads: new(sampler.Reads)})
	if g == nil {
		t.Fatalf("no collector of %s", version)
	}
	if mode, _ := table.Field("rb_objspace.flags.mode"); len(data) > 0 {
		// The collector is between collections, or between two steps of sweeping. ddtop would wait for the end of a
		// step.
		sweeping := uint64(sampler.GCSweeping) * uint64(data[0]&1)
		mem.words[objspace+attach.Address(mode.Offset)] = sweeping << mode.BitOffset
	}
	c, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	return c, mem
}

// FuzzHeap fills a heap with any content. A pass over it must end after a bounded number of reads, and must count each
// slot once.
func FuzzHeap(f *testing.F) {
	slot := make([]byte, 64)
	for typ := range byte(32) {
		slot[0] = typ
		binary.LittleEndian.PutUint64(slot[8:], 0x1000*uint64(typ))
		binary.LittleEndian.PutUint64(slot[16:], ^uint64(0))
		f.Add(append([]byte(nil), slot...), uint16(40), typ)
		f.Add(append([]byte(nil), slot[:41]...), uint16(80), typ)
		f.Add([]byte{typ, 0x80, 0x21, 3, 9}, uint16(typ)*40, typ)
	}
	versions := []string{"2.7.8", "3.1.2", "3.3.8", "3.4.9", "4.0.5"}
	f.Fuzz(func(t *testing.T, data []byte, slot uint16, release uint8) {
		if len(data) > 1<<10 {
			return
		}
		c, mem := newHostile(t, versions[int(release)%len(versions)], data, slot)
		rests := 0
		out, err := c.Count(context.Background(), func() { rests++ })
		if limit := maxPasses * (hostPages + 2) * (1 << 17) * 2; mem.bytes > limit {
			t.Fatalf("%d bytes were read, more than %d", mem.bytes, limit)
		}
		if err != nil {
			if len(data) > 0 && !bytes.Contains(data, []byte{0xff}) {
				t.Fatal(err) // all memory can be read, so this is no read error
			}
			return
		}
		var slots, sized uint64
		for i := range out.Types {
			slots += out.Types[i].Objects
			if k := &out.Types[i]; k.Old > k.Objects || k.Unsized > k.Objects || k.OtherBytes > k.Objects*maxOwned {
				t.Fatalf("%+v", *k)
			}
		}
		for i := range out.Sizes {
			sized += out.Sizes[i].Slots
		}
		if slots != out.Objects || sized != out.Objects+out.Dead+out.Free || out.Pages+out.Skipped > hostPages {
			t.Fatalf("%d objects in types, %d slots in sizes: %+v", slots, sized, out)
		}
		var classed uint64
		for i := range out.Classes {
			classed += out.Classes[i].Objects
		}
		if classed != out.Objects {
			t.Fatalf("%d objects in classes of %d", classed, out.Objects)
		}
		if rests < hostPages/gc.PagesAPiece {
			t.Fatalf("%d rests", rests)
		}
	})
}

// maxOwned limits how many bytes one object can have outside its slot. heap.Sizer accepts no greater size.
const maxOwned = 8 << 40
