// Package stacknames finds the names (StackIDs) of Ruby stacks that BPF programs have copied. Only the goroutine that
// samples the process, called the clock, can find names. So other goroutines request names from the clock.
package stacknames
