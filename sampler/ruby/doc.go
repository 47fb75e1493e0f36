// Package ruby reads Ruby's structs in another process's memory. Find finds the VM, a Reader fills samples tick by
// tick. The packages in internal have a subject each. rubyvm finds the VM, heap reads objects, code reads iseqs,
// methods and their names, gc the collector. work and trace find what a thread works for. places finds, by package
// layout's tables, where a release keeps what. view reads linked structs in few calls. This package asks the kernel
// only for memory (package kernel has the rest).
//
// The memory is read while the target writes to it, so nothing is believed because it was read. Two reads must agree,
// kept names are compared again after a collection, and every list and size has a named limit. What does not fit is an
// error (code.ErrTorn: read again) or a mark in the sample, never a guess. docs/internals/reading.md says how and why.
package ruby
