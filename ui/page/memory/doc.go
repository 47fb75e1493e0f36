// Package memory is the view of memory and of the garbage collector. It also shows which code paid for collections.
package memory
