// Package stacknames names Ruby stacks that programs in the kernel have copied. Only the clock reads names, so other
// goroutines ask it.
package stacknames
