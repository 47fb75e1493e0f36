// Package stacknames finds the names (StackIDs) of Ruby stacks that BPF programs have copied. Only the clock's
// goroutine can find names, so other goroutines request them.
package stacknames
