package ruby

import (
	"errors"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// copiesOf returns the stacks of a captured process's threads in the form in which a BPF program copies them. names has
// the StackIDs that ddtop gave to these stacks in a tick.
func copiesOf(t testing.TB, r *Reader) (copies []CopiedStack, names []sampler.StackID) {
	t.Helper()
	if _, err := ticks(r, 9); err != nil {
		t.Fatal(err)
	}
	for _, th := range r.list.order {
		s := &th.stack
		if s.id == 0 || len(s.kept) == 0 || s.quality&sampler.StackFailed != 0 {
			continue
		}
		values := make([]byte, min(int(s.cfp-s.low), 16<<10))
		if r.mem.Read(s.low, values) != nil {
			values = nil // a part of the values was not captured, so the Decoder reads what it needs from memory
		}
		copies = append(copies, CopiedStack{Low: s.low, End: s.keptEnd, CFP: s.keptEnd - attach.Address(len(s.kept)), Frames: s.kept, Values: values})
		names = append(names, s.id)
	}
	return copies, names
}

// TestCopied: a copied stack must get the same StackID as the same stack in a tick. While the code stays the same, the
// stack's key must stay the same, and the proof of its StackID must be valid.
func TestCopied(t *testing.T) {
	for _, g := range loadTicks(t) {
		t.Run(g.Version, func(t *testing.T) {
			r, err := g.open(g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := r.Contexts(); !ok {
				t.Skip("a part of this release's control frames lies elsewhere (ZJIT)")
			}
			copies, names := copiesOf(t, r)
			if len(copies) < 8 {
				t.Errorf("%d stacks", len(copies))
			}
			keys, revision := make(map[string]sampler.StackID), r.Revision()
			for i := range copies {
				id, proof, whole, err := r.NameCopied(&copies[i])
				if err != nil || id != names[i] || !whole {
					t.Errorf("stack %d is %d, %v; by a tick %d", i, id, err, names[i])
				}
				if !r.Holds(proof) {
					t.Errorf("the proof of stack %d does not hold now", i)
				}
				key := string(r.CopiedKey(&copies[i], nil))
				if was, ok := keys[key]; ok && was != id {
					t.Errorf("stacks %d and %d have one key", was, id)
				}
				keys[key] = id
			}
			if r.Revision() != revision {
				t.Error("naming changed what the names rest on")
			}
			// A stack that is not used for half a minute is evicted together with its StackID. After that, the proof
			// must be invalid.
			k := sampler.NewKeeper(r.dict, 1)
			_, proof, _, _ := r.NameCopied(&copies[0])
			k.Feed(&sampler.Sample{TimeNS: 1}, false)
			k.Feed(&sampler.Sample{TimeNS: 1e12}, false)
			if r.Holds(proof) || r.Revision() == revision {
				t.Error("a name is believed that can be evicted")
			}
		})
	}
}

// FuzzCopied: a copied stack can have any bytes. CopiedKey and NameCopied must return, at most with an error.
func FuzzCopied(f *testing.F) {
	targets := loadTicks(f)
	f.Add(uint8(0), uint16(0), uint16(32), uint64(1)<<63, uint16(0))
	for i := range targets {
		for at := range uint16(40) {
			f.Add(uint8(i), at%5, at*13, uint64(at)<<(at%57), at)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, stack, at uint16, word uint64, cut uint16) {
		r, err := targets[int(which)%len(targets)].open(targets[int(which)%len(targets)].Pages)
		if err != nil {
			t.Fatal(err)
		}
		copies, _ := copiesOf(t, r)
		if len(copies) == 0 {
			return
		}
		s := copies[int(stack)%len(copies)]
		s.Frames, s.Values = append([]byte(nil), s.Frames...), append([]byte(nil), s.Values...)
		if n := len(s.Frames) - 8; n > 0 {
			for i := range 8 {
				s.Frames[int(at)%n+i] = byte(word >> (8 * i))
			}
		}
		if n := len(s.Values) - 8; n > 0 {
			for i := range 8 {
				s.Values[int(at)*7%n+i] = byte(word >> (8 * i))
			}
			s.Values = s.Values[:max(len(s.Values)-int(cut), 0)]
		}
		size := r.o.Code.FrameSize
		if key := r.CopiedKey(&s, nil); len(key) != 24*(len(s.Frames)/size) {
			t.Errorf("a key of %d bytes for %d of frames", len(key), len(s.Frames))
		}
		before := r.reads.Calls
		_, _, _, _ = r.NameCopied(&s)
		if calls := r.reads.Calls - before; calls > 1<<16 {
			t.Errorf("%d calls", calls)
		}
		s.CFP += attach.Address(size)
		if _, _, _, err := r.NameCopied(&s); !errors.Is(err, errNotFrames) {
			t.Errorf("frames that do not end where the stack does: %v", err)
		}
	})
}
