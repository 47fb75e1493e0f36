// Package memory is the view of memory and of the garbage collector. It also shows which code's threads did the
// collector's work.
package memory
