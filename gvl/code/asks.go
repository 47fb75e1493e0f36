package code

import (
	"cmp"
	"strings"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// Ask is code that asked the kernel for memory: a C function, and the Ruby code that called it. Either can be empty.
type Ask struct {
	C, Ruby string
	// Calls, Bytes and Held are sums over all stacks with this code. Stack is the one of these stacks that asked for
	// the most memory.
	Calls, Bytes, Held uint64
	Stack              sampler.StackID
}

// String returns the code as text: "Cache#fill → Image.load → decode (libjpeg)".
func (a *Ask) String() string {
	switch {
	case a.C == "":
		return cmp.Or(a.Ruby, "unknown")
	case a.Ruby == "":
		return a.C
	}
	return a.Ruby + " → " + a.C
}

// allocators are libraries that ask the kernel for memory only on behalf of the code that calls them.
var allocators = []string{"libc", "ld-linux", "libpthread", "libjemalloc", "libtcmalloc", "libmimalloc", "kernel"}

func isAllocator(library string) bool {
	for _, a := range allocators {
		if strings.HasPrefix(library, a) && (len(library) == len(a) || !isLetter(library[len(a)])) {
			return true
		}
	}
	return false
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// Asks adds up requests for memory by the code that made them. The code for which the most memory is still mapped comes
// first.
func Asks(dict *sampler.Dictionary, a *sampler.MemoryAsks) (out []Ask) {
	type place struct{ c, ruby string }
	rows := make(map[place]*Ask)
	for _, x := range a.Stacks {
		var at place
		at.c, at.ruby = asker(dict, x.Stack)
		row := rows[at]
		if row == nil {
			row = &Ask{C: at.c, Ruby: at.ruby, Stack: x.Stack}
			rows[at] = row
		}
		row.Calls, row.Bytes, row.Held = row.Calls+x.Calls, row.Bytes+x.Bytes, row.Held+x.Held
	}
	for _, row := range rows {
		out = append(out, *row)
	}
	sorting.By(out, func(x, y Ask) int {
		return cmp.Or(cmp.Compare(y.Held, x.Held), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.C, y.C), cmp.Compare(x.Ruby, y.Ruby))
	})
	return out
}

// asker names the code of a stack that asked for memory. It is the innermost C function outside the allocator
// libraries, and the Ruby code that called it. A function without a name is used only if no other function has a name.
func asker(dict *sampler.Dictionary, stack sampler.StackID) (c, ruby string) {
	nameless, malloc := "", ""
	for at, f := range Frames(dict, stack, MaxFrames) {
		if !f.IsNative() {
			ruby = Where(dict, at)
			break
		}
		functions := f.NativeFrames()
		switch library := f.Native.Library; {
		case c != "" || len(functions) == 0:
		case isAllocator(library):
			malloc = cmp.Or(malloc, f.Label)
		case functions[0].Name == "":
			nameless = cmp.Or(nameless, f.Label)
		default:
			c = f.Label + " (" + library + ")"
		}
	}
	return cmp.Or(c, nameless, malloc), ruby
}
