// Package ruby reads Ruby's structs in another process's memory. Find finds the VM. A Reader fills a Sample at each
// tick. Each package in internal has one subject. rubyvm finds the VM. heap reads objects. code reads iseqs, methods
// and their names. gc reads the collector. work and trace find the request and the span for which a thread works.
// places finds the offsets of a release's fields in the tables of package layout. view reads linked structs in few
// calls. Data that is not in the process's memory comes from package kernel.
//
// The target writes to its memory while ddtop reads it, so a single read proves nothing. Two reads must agree. Kept
// names are compared again after a collection. Every list and size has a named limit. If data does not fit, the result
// is an error or a mark in the sample, and never a guess. The error code.ErrTorn means that the caller must read again.
// See docs/internals/reading.md.
package ruby
