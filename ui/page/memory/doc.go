// Package memory is the view of the memory and the collector, and whose code paid for collections.
package memory
