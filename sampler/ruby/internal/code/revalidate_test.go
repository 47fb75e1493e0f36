package code

import (
	"maps"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// TestWitnesses changes one word after another in captured memory from which code was decoded, as if other code had
// taken the same addresses. ddtop must notice each change after the next collection, and not before.
func TestWitnesses(t *testing.T) {
	for _, g := range loadGoldens(t) {
		t.Run(g.Version, func(t *testing.T) {
			mem := &memtest.Edited{Of: g.Pages, Words: map[attach.Address]uint64{}}
			d, dict, err := decoderOf(&g.Process, mem)
			if err != nil {
				t.Fatal(err)
			}
			gc := sampler.GC{Valid: true, Count: 1, MajorCount: 1}
			now := int64(1e12)
			collect := func() {
				t.Helper()
				gc.Count, gc.MajorCount, now = gc.Count+1, gc.MajorCount+1, now+1e6
				if err := d.Revalidate(now, gc); err != nil {
					t.Fatal(err)
				}
			}
			stack := raw(&g.Stacks[0])
			use := func() []string {
				t.Helper()
				text, err := describe(d, dict, &stack)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			want := use()
			var code []*iseq
			for _, q := range d.iseqs {
				code = append(code, q)
			}
			tried := 0
			for _, q := range code {
				for _, w := range q.witnesses {
					at := w.Addr
					if w.Mask != 0 {
						at += 16 // the words after flags and class: lengths, pointers, elements, embedded text
					}
					var b [8]byte
					if w.Size < uint32(at-w.Addr)+1 || g.Pages.Read(at, b[:]) != nil {
						continue
					}
					if d.iseqs[q.addr] == nil {
						use()
					}
					kept := d.iseqs[q.addr]
					collect()
					use()
					if kept == nil || kept.hot != d.hotList {
						continue // this code is on no stack; it was read only to find the kind of its method
					}
					if d.iseqs[q.addr] != kept {
						t.Fatalf("%s was read anew though nothing had changed", q.base)
					}
					tried++
					mem.Words[at] = view.U64(b[:]) ^ 1
					collect()
					if d.iseqs[q.addr] == kept {
						t.Errorf("%s is still believed after the word at %s has changed", q.base, at)
					}
					delete(mem.Words, at)
					d.forgetAll()
				}
			}
			if tried < 2*len(code) {
				t.Errorf("%d words of %d pieces of code changed only", tried, len(code))
			}
			changeNames(t, d, mem, collect, func() { use() })
			collect()
			if got := use(); !slices.Equal(got, want) {
				t.Errorf("got %q, was %q", got, want)
			}
		})
	}
}

// changeNames changes the words from which the class names of methods were read, one after another. The Decoder must
// notice each change.
func changeNames(t *testing.T, d *Decoder, mem *memtest.Edited, collect, use func()) {
	t.Helper()
	use()
	tried := 0
	for _, addr := range slices.Collect(maps.Keys(d.methodEntries)) {
		for i := 0; ; i++ {
			d.forgetAll()
			use()
			h := d.methodEntries[addr]
			if h == nil || i >= len(h.witnesses) {
				break
			}
			at := h.witnesses[i].Addr &^ 7 // the flags of an object, which have its type
			var b [8]byte
			if mem.Read(at, b[:]) != nil {
				t.Fatalf("nothing at %s", at)
			}
			collect()
			use()
			if d.methodEntries[addr] != h {
				t.Fatalf("%s was read anew though nothing had changed", h.label)
			}
			tried++
			mem.Words[at] = view.U64(b[:]) ^ 1<<(8*(h.witnesses[i].Addr&7))
			collect()
			if d.methodEntries[addr] == h {
				t.Errorf("%s is still believed after the word at %s has changed", h.label, at)
			}
			delete(mem.Words, at)
		}
	}
	if tried < 2*len(d.methodEntries) {
		t.Errorf("%d words of %d methods changed only", tried, len(d.methodEntries))
	}
}

// TestRevalidateOnlyWhenDue counts reads. While no object can have been freed or moved, Revalidate must read only the
// load path.
func TestRevalidateOnlyWhenDue(t *testing.T) {
	goldens := loadGoldens(t)
	g := goldens[len(goldens)-1]
	mem := &counter{Memory: g.Pages}
	d, dict, err := decoderOf(&g.Process, mem)
	if err != nil {
		t.Fatal(err)
	}
	use := func() {
		t.Helper()
		for _, s := range g.Stacks {
			stack := raw(&s)
			if _, err := describe(d, dict, &stack); err != nil {
				t.Fatal(err)
			}
		}
	}
	const ms = 1_000_000
	now, gc := int64(1e12), sampler.GC{Valid: true, Count: 10, MajorCount: 2}
	step := func(name string, after int64, want int) {
		t.Helper()
		now += after
		mem.calls = 0
		if err := d.Revalidate(now, gc); err != nil {
			t.Fatal(err)
		}
		if mem.calls != want {
			t.Errorf("%s: %d reads, not %d", name, mem.calls, want)
		}
		mem.calls = 0
		use()
		if mem.calls > 0 {
			t.Errorf("%s: %d reads to decode what is known", name, mem.calls)
		}
	}
	use()
	// look is how many reads are needed to compare all entries, including the names of classes. path is how many reads
	// are needed to check the load path, once a second.
	const look, path = 1, 1
	step("first", 0, look+path)
	step("nothing happened", 10*ms, 0)
	gc.Count++
	step("a minor collection right after the last check", 1*ms, look)
	step("nothing happened since", 20*ms, 0)
	gc.Count, gc.MajorCount = gc.Count+1, gc.MajorCount+1
	step("a major collection", 1*ms, look)
	gc.Count += oldAge
	step("old objects survive minor collections", 50*ms, 0)
	gc.Count, gc.During, gc.Minor = gc.Count+1, true, true
	step("in the midst of one", 1*ms, 0)
	gc.During, gc.Mode = false, sampler.GCSweeping
	step("and at its end", 1*ms, 0)
	gc.Mode = sampler.GCIdle
	step("a second is over", 1000*ms, path)
	gc.Valid = false
	step("the collector can't be read any more", 150*ms, look)
	step("nor a moment later", 50*ms, 0)
}

type counter struct {
	attach.Memory
	calls int
}

func (c *counter) ReadBatch(r []attach.Range) (int, error) {
	c.calls++
	return c.Memory.ReadBatch(r)
}
