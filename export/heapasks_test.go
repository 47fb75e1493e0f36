package export

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestHeapAsks: the table is sorted by memory that is still mapped, the code with the most first. The heading gives the
// number of calls whose stacks are known. A sentence names the first code only if that code has at least half of this
// memory.
func TestHeapAsks(t *testing.T) {
	d := sampler.NewDictionary()
	stack := func(label string) sampler.StackID {
		id := d.InternStack(0, d.InternFrame(sampler.Frame{Label: label, Name: label, Path: "app.rb", Origin: sampler.OriginApp}))
		return d.InternNative(id, &sampler.NativeStack{Frames: []sampler.NativeFrame{{Library: "libc", Name: "mmap"}, {Library: "leak", Name: "leak"}}})
	}
	asks := func(first, second uint64) *sampler.MemoryAsks {
		return &sampler.MemoryAsks{SinceNS: 1e9, UntilNS: 3e9, Calls: 300, Bytes: 9e6, Copied: 200,
			Stacks: []sampler.MemoryAsk{{Stack: stack("App#grow"), Calls: 3, Bytes: 5e6, Held: first}, {Stack: stack("App#other"), Calls: 4, Bytes: 4e6, Held: second}}}
	}
	h := &Heap{Heap: report.Heap{Memory: &report.HeapMemory{Grown: &report.HeapMemoryGrown{Is: "c_code"}}}}
	h.Asks(d, asks(3e6, 1e6), "")
	var b strings.Builder
	h.memory(&b)
	for _, want := range []string{
		"App#grow → leak (leak) asked the kernel for 75 % of the memory that stays, in 2 s.",
		"Code that asked the kernel for memory in 2 s: 9.0 MB, 300 calls. The table has the stacks of 200 of them. More may have been given back",
		"App#other → leak (leak)     4.0 MB        1.0 MB      4",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %s", want, b.String())
		}
	}
	if a := h.Heap.Memory.Asks; len(a.Stacks) != 2 || len(a.Stacks[0].Frames) != 3 || a.HeldKnown {
		t.Errorf("%+v", a)
	}
	if text := AskedText(d, asks(1e6, 2e6-1), ""); !strings.HasPrefix(text, "App#other") {
		t.Errorf("%q", text)
	}
	if text := AskedText(d, asks(0, 0), ""); text != "" {
		t.Errorf("%q", text)
	}
	h.asked = ""
	h.Asks(nil, nil, "no rights")
	b.Reset()
	h.memory(&b)
	if !strings.Contains(b.String(), "The code that asks the kernel for memory is not known: no rights.") {
		t.Error(b.String())
	}
}
