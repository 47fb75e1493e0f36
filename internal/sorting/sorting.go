// Package sorting sorts slices like slices.SortFunc, but makes ddtop's binary smaller.
//
// For each type of element, the compiler makes a copy of slices.SortFunc and of the functions that it calls. Such a
// copy adds 12 kB to the binary. This package has only one copy of the algorithm for all types. Each type adds less
// than 1 kB, but sorting takes up to twice as long. So code that sorts at every event of a busy process still calls
// slices.SortFunc.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// elements describes a slice to package sort, independently of the type of its elements: a length, and functions to
// compare and swap.
type elements struct {
	n    int
	less func(i, j int) bool
	swap func(i, j int)
}

func (e *elements) Len() int           { return e.n }
func (e *elements) Less(i, j int) bool { return e.less(i, j) }
func (e *elements) Swap(i, j int)      { e.swap(i, j) }

// By sorts as slices.SortFunc does.
func By[S ~[]E, E any](s S, cmp func(a, b E) int) {
	if len(s) > 1 {
		sort.Sort(of(s, cmp))
	}
}

// StableBy sorts as slices.SortStableFunc does.
func StableBy[S ~[]E, E any](s S, cmp func(a, b E) int) {
	if len(s) > 1 {
		sort.Stable(of(s, cmp))
	}
}

// Sorted collects values into a slice and sorts the slice, as slices.SortedFunc does.
func Sorted[E any](values iter.Seq[E], cmp func(a, b E) int) []E {
	s := slices.Collect(values)
	By(s, cmp)
	return s
}

// of must not be inlined. So its closures exist once for each type, and not once for each caller.
//
//go:noinline
func of[S ~[]E, E any](s S, cmp func(a, b E) int) *elements {
	return &elements{
		n:    len(s),
		less: func(i, j int) bool { return cmp(s[i], s[j]) < 0 },
		swap: func(i, j int) { s[i], s[j] = s[j], s[i] },
	}
}
