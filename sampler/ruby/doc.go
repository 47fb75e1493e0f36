// Package ruby reads Ruby's structs in another process's memory: Find finds the VM, a Reader fills samples tick by
// tick. The packages in internal have a subject each: rubyvm finds the VM, heap reads objects, code iseqs, methods and
// their names, gc the collector, work and trace whom a thread works for; places finds by package layout's tables where
// a release keeps what, view reads linked structs in few calls. It asks the kernel for nothing but memory (package
// kernel has the rest).
//
// The memory is read while the program writes to it. So nothing read is believed for standing there: what was read
// twice must agree, what was kept is compared again after a collection, every list and size has a named limit, and what
// does not fit is an error (code.ErrTorn: read again) or a mark in the sample, never a guess. docs/internals/reading.md
// says how and why.
package ruby
