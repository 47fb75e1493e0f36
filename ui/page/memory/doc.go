// Package memory is the view of memory and of the garbage collector. It also lists the code whose threads did the
// collector's work.
package memory
