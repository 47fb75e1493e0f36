package ruby

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// corrupted is captured memory with some of its words replaced.
type corrupted struct {
	pages *memtest.Pages
	edits map[attach.Address]uint64
}

func (c *corrupted) Read(addr attach.Address, buf []byte) error {
	if err := c.pages.Read(addr, buf); err != nil {
		return err
	}
	for at, word := range c.edits {
		for i := range 8 {
			if a := at + attach.Address(i); a >= addr && a < addr+attach.Address(len(buf)) {
				buf[a-addr] = byte(word >> (8 * i))
			}
		}
	}
	return nil
}

func (c *corrupted) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		ranges[i].Failed = c.Read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	return 1, nil
}

// words are the places that decoding reads, for a fuzzer to change: it would hardly find them among the pages.
type words struct {
	attach.Memory
	at   []attach.Address
	seen map[attach.Address]bool
}

func (w *words) ReadBatch(ranges []attach.Range) (int, error) {
	for _, r := range ranges {
		for a := r.Addr &^ 7; a < r.Addr+attach.Address(len(r.Buf)); a += 8 {
			if !w.seen[a] {
				w.seen[a] = true
				w.at = append(w.at, a)
			}
		}
	}
	return w.Memory.ReadBatch(ranges)
}

// addEdits adds seeds for one process: none and n of six edits each, at places some way apart.
func addEdits(f *testing.F, process, n, apart int) {
	f.Add(uint8(process), []byte{})
	for n := range n {
		seed := make([]byte, 0, 64)
		for e := range 6 {
			seed = binary.LittleEndian.AppendUint16(seed, uint16(n*apart+e*131))
			seed = binary.LittleEndian.AppendUint32(seed, uint32(n*e)<<uint(e*3)|uint32(e&1))
		}
		f.Add(uint8(process), seed)
	}
}

// FuzzDecode decodes stacks of captured processes in which words were replaced by other words of the same memory, or by
// any number: pointers to the wrong kind of object, loops, sizes without end. It must end, in a bounded number of reads,
// with a stack or an error.
func FuzzDecode(f *testing.F) {
	goldens := loadGoldens(f)
	places := make([][]attach.Address, len(goldens))
	for i, g := range goldens {
		w := &words{Memory: g.pages, seen: make(map[attach.Address]bool)}
		d, dict, err := g.decoder(w)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range g.Stacks {
			raw := s.raw()
			if _, err := describe(d, dict, &raw); err != nil {
				f.Fatal(err)
			}
		}
		places[i] = w.at
		addEdits(f, i, 24, 977)
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		i := int(which) % len(goldens)
		g := goldens[i]
		mem := &corrupted{pages: g.pages, edits: make(map[attach.Address]uint64)}
		frameEdits := make(map[int]uint64)
		for ; len(edits) >= 6; edits = edits[6:] {
			at := places[i][int(binary.LittleEndian.Uint16(edits))%len(places[i])]
			n := binary.LittleEndian.Uint32(edits[2:])
			value := uint64(n)
			switch n & 3 {
			case 0: // a pointer to somewhere that is read
				value = uint64(places[i][int(n>>2)%len(places[i])])
			case 1: // another word of this memory
				var b [8]byte
				if g.pages.Read(places[i][int(n>>2)%len(places[i])], b[:]) == nil {
					value = binary.LittleEndian.Uint64(b[:])
				}
			case 2: // a word of the frames
				frameEdits[int(n>>2)] = uint64(at)
				continue
			}
			mem.edits[at] = value
		}
		d, _, err := g.decoder(mem)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range g.Stacks {
			raw := s.raw()
			raw.Frames = append([]byte(nil), raw.Frames...)
			for at, value := range frameEdits {
				binary.LittleEndian.PutUint64(raw.Frames[at%(len(raw.Frames)/8)*8:], value)
			}
			raw.Running = which&1 != 0
			_, info, err := d.Decode(&raw)
			if err == nil && info.Frames > len(raw.Frames)/d.o.frameSize {
				t.Fatalf("%d frames out of %d bytes", info.Frames, len(raw.Frames))
			}
			if info.Calls > maxDecodeTries*(2*view.MaxRounds+1) {
				t.Fatalf("%d calls", info.Calls)
			}
			for off := frameSelf; off+8 <= len(raw.Frames); off += d.o.frameSize {
				v := binary.LittleEndian.Uint64(raw.Frames[off:])
				d.objects.ClassName(v)
				d.objects.DataTypeName(v)
				d.objects.String(v)
			}
		}
	})
}
