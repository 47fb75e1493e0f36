package code

import (
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestAsks: memory requests are added up by their innermost C function outside of malloc, and by the Ruby code that
// called this function.
func TestAsks(t *testing.T) {
	d := sampler.NewDictionary()
	ruby := func(label string) sampler.StackID {
		main := d.InternStack(0, d.InternFrame(sampler.Frame{Label: label, Name: label, Path: "app.rb", Line: 1, Origin: sampler.OriginApp}))
		return d.InternStack(main, d.InternFrame(sampler.Frame{Label: "Lib.call", Name: "call", C: true, Origin: sampler.OriginCore}))
	}
	native := func(of sampler.StackID, offset uint64, frames ...sampler.NativeFrame) sampler.StackID {
		frames[0].Offset = offset
		return d.InternNative(of, &sampler.NativeStack{Frames: frames})
	}
	malloc, mmap := sampler.NativeFrame{Library: "libc", Name: "malloc"}, sampler.NativeFrame{Library: "libc", Name: "mmap"}
	leak, ffi := sampler.NativeFrame{Library: "leak", Name: "leak"}, sampler.NativeFrame{Library: "libffi", Function: 16}
	a, b := ruby("App#grow"), ruby("App#other")
	got := Asks(d, &sampler.MemoryAsks{Stacks: []sampler.MemoryAsk{
		{Stack: native(b, 1, mmap, malloc, leak), Calls: 1, Bytes: 50, Held: 50},
		{Stack: native(a, 1, mmap, malloc, leak), Calls: 2, Bytes: 100, Held: 40},
		{Stack: native(a, 2, mmap, malloc, ffi, leak), Calls: 3, Bytes: 30, Held: 20},
		{Stack: native(a, 3, mmap, malloc, ffi), Calls: 1, Bytes: 9, Held: 9},
		{Stack: native(0, 4, mmap, malloc), Calls: 1, Bytes: 8, Held: 8},
		{Stack: b, Calls: 1, Bytes: 7},
	}})
	for i, want := range []string{"App#grow → Lib.call → leak (leak)", 3: "mmap", 4: "App#other → Lib.call"} {
		if got[i].Stack = 0; want != "" && got[i].String() != want {
			t.Errorf("%s, want %s", &got[i], want)
		}
	}
	if want := []Ask{
		{C: "leak (leak)", Ruby: "App#grow → Lib.call", Calls: 5, Bytes: 130, Held: 60},
		{C: "leak (leak)", Ruby: "App#other → Lib.call", Calls: 1, Bytes: 50, Held: 50},
		{C: "libffi (1 function)", Ruby: "App#grow → Lib.call", Calls: 1, Bytes: 9, Held: 9},
		{C: "mmap", Calls: 1, Bytes: 8, Held: 8},
		{Ruby: "App#other → Lib.call", Calls: 1, Bytes: 7},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for library, is := range map[string]bool{"libc": true, "libc-2.31": true, "libcrypto": false, "libjemalloc": true, "leak": false} {
		if isAllocator(library) != is {
			t.Errorf("%s", library)
		}
	}
}
