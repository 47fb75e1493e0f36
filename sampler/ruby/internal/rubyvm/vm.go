package rubyvm

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// VM is a Ruby virtual machine found in a target's memory. It does not change: the VM keeps its address for the life of
// the process (docs/internals/threads.md#finding-the-vm).
type VM struct {
	Mem   attach.Memory
	Table *layout.Table
	// Version is Ruby's own version string, "3.4.11"; Release the same as numbers.
	Version string
	Release places.Release
	// Addr is the address of rb_vm_t.
	Addr attach.Address
	// MainThread is the address of the main thread's rb_thread_t at the time of LocateVM. A fork makes another thread
	// the main one.
	MainThread attach.Address
	// Symbols is the address of the symbol table, rb_symbols_t.
	Symbols attach.Address
	// Shapes is the address of rb_shape_tree_t (3.3 and later). It is zero if not known. Then no instance variables are
	// read.
	Shapes attach.Address
	// ZJITFrames is true if control frames may leave their iseq and pc to a JIT frame (head with --zjit:
	// docs/internals/code.md#jits).
	ZJITFrames bool
	// EarlyFrames is true if ec->cfp is moved before the new frame is filled, unlike in the release without a JIT (YJIT
	// of 3.1). The innermost frame of a running thread cannot be trusted
	// (docs/internals/stacks.md#publication-of-a-frame).
	EarlyFrames bool
	// Description is RUBY_DESCRIPTION, the output of `ruby -v` in this process with its JIT. It is empty if it cannot
	// be read.
	Description string
	// Places are the places of the release's fields, by Table.
	Places *Offsets
	// variables calls f with all words of the library's variables. It is nil for a captured process.
	variables func(f func(at attach.Address, word uint64)) error
	// jits are the JITs that the process may use.
	jits []code.JIT
}

// Resolve sets the fields with a layout tag of the struct that into points to. Its error names all that the table
// lacks.
func (vm *VM) Resolve(into any) error { return places.Resolve(vm.Table, vm.Release, into) }
