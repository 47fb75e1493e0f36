package census

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/ruby/internal/holders"
)

// FuzzReferences fills a heap with any content. Copying the heap's references must end within the limits. It must then
// be possible to compute the paths and sizes of the copied graph.
func FuzzReferences(f *testing.F) {
	slot := make([]byte, 80)
	for typ := range byte(32) {
		slot[0] = typ
		for i, to := range []uint64{pagesAt + 0x50, pagesAt + 0x10000, headersAt, objspace, ^uint64(7)} {
			binary.LittleEndian.PutUint64(slot[8+8*i:], to)
		}
		for _, flags := range []byte{0, 0x20, 0x80} {
			slot[1] = flags
			f.Add(append([]byte(nil), slot...), uint16(80), typ)
			f.Add(append([]byte(nil), slot[:40]...), uint16(40), typ)
		}
	}
	versions := []string{"2.7.8", "3.1.2", "3.3.8", "3.4.9", "4.0.5"}
	f.Fuzz(func(t *testing.T, data []byte, slot uint16, release uint8) {
		if len(data) > 1<<10 {
			return
		}
		c, mem := newHostile(t, versions[int(release)%len(versions)], data, slot)
		o := sampler.HolderOptions{MaxObjects: 1 << 16, MaxBytes: 16 << 20, Contents: true}
		g, info, err := holders.Read(context.Background(), c.gc, o, func() {})
		if limit := 3 * (64 << 20); mem.bytes > limit {
			t.Fatalf("%d bytes were read, more than %d", mem.bytes, limit)
		}
		if err != nil {
			return
		}
		if info.Objects > o.MaxObjects || info.Bytes > o.MaxBytes {
			t.Fatalf("%+v", info)
		}
		all := uint64(0)
		for i := range g.Nodes {
			all += g.Nodes[i].Size
		}
		for _, typ := range []string{heapgraph.TypeString, heapgraph.TypeArray, heapgraph.TypeHash} {
			for _, b := range g.Largest(typ, 5) {
				if b.Retained > all || len(b.Path.String()) > 1<<20 {
					t.Fatalf("%+v", b)
				}
			}
		}
		g.Copies(5)
	})
}

// TestReferencesOfHalfMade has an Array or a Struct that Ruby has not finished making. The word for its length still
// belongs to the object that had the slot before. ddtop must count the new object as empty. Otherwise the heap would
// seem too large.
func TestReferencesOfHalfMade(t *testing.T) {
	for _, typ := range []byte{7, 9} {
		slot := make([]byte, 40)
		slot[0] = typ
		for at, word := range map[int]uint64{8: pagesAt, 16: 0x7f1234567890, 24: pagesAt, 32: pagesAt} {
			binary.LittleEndian.PutUint64(slot[at:], word)
		}
		c, _ := newHostile(t, "3.3.8", slot, 40)
		o := sampler.HolderOptions{MaxObjects: 1 << 20, MaxBytes: 64 << 20}
		if _, info, err := holders.Read(context.Background(), c.gc, o, func() {}); err != nil || info.Objects == 0 {
			t.Errorf("type %d: %v, %+v", typ, err, info)
		}
	}
}
