package code

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// FuzzDecode replaces words of a captured process by other words of its memory, or by any number. The words can then be
// pointers to the wrong kind of object, loops, or huge sizes. Decoding must still end after a bounded number of reads,
// with a stack or an error.
func FuzzDecode(f *testing.F) {
	goldens := loadGoldens(f)
	places := make([][]attach.Address, len(goldens))
	for i, g := range goldens {
		w := memtest.NewPlaces(g.Pages)
		d, dict, err := decoderOf(&g.Process, w)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range g.Stacks {
			stack := raw(&s)
			if _, err := describe(d, dict, &stack); err != nil {
				f.Fatal(err)
			}
		}
		places[i] = w.At
		memtest.AddEdits(f, i, 24, 977)
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		i := int(which) % len(goldens)
		g := goldens[i]
		mem := &memtest.Edited{Of: g.Pages, Words: make(map[attach.Address]uint64)}
		frameEdits := make(map[int]uint64)
		for ; len(edits) >= 6; edits = edits[6:] {
			at := places[i][int(binary.LittleEndian.Uint16(edits))%len(places[i])]
			n := binary.LittleEndian.Uint32(edits[2:])
			value := uint64(n)
			switch n & 3 {
			case 0: // a pointer to one of the addresses that the decoder reads
				value = uint64(places[i][int(n>>2)%len(places[i])])
			case 1: // another word of this memory
				var b [8]byte
				if g.Pages.Read(places[i][int(n>>2)%len(places[i])], b[:]) == nil {
					value = binary.LittleEndian.Uint64(b[:])
				}
			case 2: // a word of the frames
				frameEdits[int(n>>2)] = uint64(at)
				continue
			}
			mem.Words[at] = value
		}
		d, _, err := decoderOf(&g.Process, mem)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range g.Stacks {
			stack := raw(&s)
			stack.Frames = append([]byte(nil), stack.Frames...)
			for at, value := range frameEdits {
				binary.LittleEndian.PutUint64(stack.Frames[at%(len(stack.Frames)/8)*8:], value)
			}
			stack.Running = which&1 != 0
			_, info, err := d.Decode(&stack)
			if err == nil && info.Frames > len(stack.Frames)/d.o.FrameSize {
				t.Fatalf("%d frames out of %d bytes", info.Frames, len(stack.Frames))
			}
			if info.Calls > maxDecodeTries*(2*view.MaxRounds+1) {
				t.Fatalf("%d calls", info.Calls)
			}
			for off := FrameSelf; off+8 <= len(stack.Frames); off += d.o.FrameSize {
				v := binary.LittleEndian.Uint64(stack.Frames[off:])
				d.Objects.ClassName(v)
				d.Objects.DataTypeName(v)
				d.Objects.String(v)
			}
		}
	})
}
