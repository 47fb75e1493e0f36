package profile

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// nativeLocation returns the location of a frame with C functions. Its mapping is the library or executable, with the
// build id. Addresses are as in that file's symbol table, so that a server that has the file can add missing names.
// Adjacent functions without a name share one location, with the address of the innermost function. The SystemName of
// the location's function lists the addresses of all these functions.
func (b *profileBuilder) nativeLocation(f sampler.Frame) *profile.Location {
	list := f.NativeFrames()
	if len(list) == 0 { // this frame represents functions that could not be read
		return b.at(f, b.mapping)
	}
	m, address := b.nativeMapping(&f), callOf(&list[0])
	named := list[0].Name != ""
	system := f.Name
	if !named {
		m.HasFunctions = false
		var all []string
		for i := range list {
			all = append(all, fmt.Sprintf("+0x%x", callOf(&list[i])))
		}
		system = path.Base(f.Path) + strings.Join(all, ",")
	}
	k := nativeKey{m.ID, system}
	fn, ok := b.native[k]
	if !ok {
		fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: flamegraph.Printable(f.Label),
			SystemName: flamegraph.Printable(system), Filename: flamegraph.Printable(f.Path)}
		b.p.Function = append(b.p.Function, fn)
		b.native[k] = fn
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: m, Address: address,
		Line: []profile.Line{{Function: fn}}}
	b.p.Location = append(b.p.Location, l)
	return l
}

// innermost returns the innermost Ruby frame of the stack. Its gem becomes the gem of the sample, because a C function
// belongs to no gem.
func (b *profileBuilder) innermost() (f sampler.Frame) {
	for _, id := range b.frames {
		if f = b.m.Dict.Frame(id); !f.IsNative() {
			break
		}
	}
	return f
}

type nativeKey struct {
	mapping uint64
	system  string
}

// callOf returns the address of the call instruction that a function is executing. The address is as in the symbol
// table of the function's file.
func callOf(n *sampler.NativeFrame) uint64 {
	if n.Offset > n.Function { // the address is behind the call, where the function continues
		return n.Offset - 1
	}
	return n.Offset
}

// nativeMapping returns the mapping of a file with C functions. The mapping starts at 0 and covers all addresses. So
// pprof and other readers interpret an address in it as an address in the file itself.
func (b *profileBuilder) nativeMapping(f *sampler.Frame) *profile.Mapping {
	key := "native " + f.Path + " " + f.Native.BuildID
	m, ok := b.mappings[key]
	if !ok {
		m = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), Limit: math.MaxUint64, File: flamegraph.Printable(f.Path),
			BuildID: flamegraph.Printable(f.Native.BuildID), HasFunctions: true}
		b.p.Mapping = append(b.p.Mapping, m)
		b.mappings[key] = m
	}
	return m
}
