package code

import (
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// TestKeptEnvironment finds a method through an environment on the heap. The Decoder must keep the result until the
// next collection. If memory is unchanged, it must also keep the result after a collection. The Decoder must not
// confuse two numbers. generation grows every second and after a collection. hotList, the number of the list cache.hot,
// grows only after a collection. So the test first makes these numbers different.
func TestKeptEnvironment(t *testing.T) {
	const ep, timed, cycles = attach.Address(0x8010), 5, 4
	memory := new(memtest.Pages)
	memory.Set(ep&^(view.Block-1), make([]byte, view.Block))
	memory.SetWord(ep, envLocal|envEscaped)
	d := NewDecoder(Target{Mem: memory, Code: new(Places), Objects: new(heap.Places)}, sampler.NewDictionary())
	raw := &Stack{}
	gc := sampler.GC{Valid: true, Mode: sampler.GCIdle}
	now := int64(0)
	find := func() *envMethod {
		t.Helper()
		d.begin()
		d.view.Reset()
		err := d.view.Settle(func() error {
			_, err := d.methodOf(raw, ep, 0, false)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return d.envs[envKey{ep: ep}]
	}
	revalidate := func() {
		t.Helper()
		now += recheckEvery
		if err := d.Revalidate(now, gc); err != nil {
			t.Fatal(err)
		}
	}
	for range timed {
		revalidate()
		gc.Count++
		revalidate()
	}
	kept := find()
	if kept == nil {
		t.Fatal("the environment was not kept")
	}
	for cycle := range cycles {
		if again := find(); again != kept {
			t.Fatalf("after %d cycles: it was walked again although nothing can have moved since it was walked", cycle)
		}
		gc.Count++
		before := d.generation
		revalidate()
		if kept.generation != d.generation || before == d.generation {
			t.Fatalf("cycle %d: in use and unchanged, but of generation %d in generation %d", cycle, kept.generation, d.generation)
		}
	}
	memory.SetWord(ep-8, 0x9000)
	gc.Count++
	revalidate()
	if d.valid(&kept.validity) {
		t.Error("it counts as valid although memory says something else")
	}
}
