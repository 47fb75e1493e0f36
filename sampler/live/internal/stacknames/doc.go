// Package stacknames finds the names (StackIDs) of Ruby stacks that BPF programs have copied. Only the clock's
// goroutine, which samples the process, can find names. So other goroutines request them from it.
package stacknames
