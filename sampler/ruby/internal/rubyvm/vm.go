package rubyvm

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// VM is a Ruby virtual machine in a target's memory. Its fields never change, because Ruby's VM keeps its address while
// the process lives (docs/internals/threads.md#finding-the-vm).
type VM struct {
	Mem   attach.Memory
	Table *layout.Table
	// Version is Ruby's version string, for example "3.4.11". Release is the same version as numbers.
	Version string
	Release places.Release
	// Addr is the address of rb_vm_t.
	Addr attach.Address
	// MainThread is the address of the rb_thread_t that was the main thread when the VM was found. After a fork,
	// another thread can be the main thread of the child process.
	MainThread attach.Address
	// Symbols is the address of the symbol table, rb_symbols_t.
	Symbols attach.Address
	// Shapes is the address of rb_shape_tree_t (3.3 and later). It is zero if it is unknown. ddtop then reads no
	// instance variables.
	Shapes attach.Address
	// ZJITFrames is true if a control frame may lack its iseq and pc, because a JIT frame has them instead. This is so
	// on the development branch with --zjit (docs/internals/code.md#jits).
	ZJITFrames bool
	// EarlyFrames is true if Ruby moves ec->cfp, the pointer to the innermost frame, before it has filled the new
	// frame, as YJIT of 3.1 does. In this case ddtop cannot trust the innermost frame of a running thread
	// (docs/internals/stacks.md#publication-of-a-frame).
	EarlyFrames bool
	// Description is RUBY_DESCRIPTION, which `ruby -v` prints. It includes the JIT of this process. It is empty if it
	// cannot be read.
	Description string
	// Places are the offsets of the release's fields, resolved from Table.
	Places *Offsets
	// variables calls f with every word of the library's variables. It is nil for a captured process.
	variables func(f func(at attach.Address, word uint64)) error
	// jits are the JITs that may be on in the process.
	jits []code.JIT
}

// Resolve sets the fields of a struct that have a layout tag. into is a pointer to the struct. The error names all
// that the table lacks.
func (vm *VM) Resolve(into any) error { return places.Resolve(vm.Table, vm.Release, into) }
