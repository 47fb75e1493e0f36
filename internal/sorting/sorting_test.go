package sorting_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/internal/sorting"
)

type pair struct {
	key   int
	value string
}

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// TestSameAsSlices: packages sorting and slices sort the same elements into the same order, even elements that compare
// as equal.
func TestSameAsSlices(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{random.IntN(n/2 + 1), string(rune('a' + random.IntN(26)))}
		}
		check := func(what string, ours, theirs func(s []pair) []pair) {
			t.Helper()
			got, want := ours(slices.Clone(list)), theirs(slices.Clone(list))
			if !slices.Equal(got, want) {
				t.Fatalf("%s of %v\ngot  %v\nwant %v", what, list, got, want)
			}
		}
		check("By",
			func(s []pair) []pair { sorting.By(s, byKey); return s },
			func(s []pair) []pair { slices.SortFunc(s, byKey); return s })
		check("StableBy",
			func(s []pair) []pair { sorting.StableBy(s, byKey); return s },
			func(s []pair) []pair { slices.SortStableFunc(s, byKey); return s })
		check("Sorted",
			func(s []pair) []pair { return sorting.Sorted(slices.Values(s), byKey) },
			func(s []pair) []pair { return slices.SortedFunc(slices.Values(s), byKey) })
	}
}

// BenchmarkSort compares how long packages sorting and slices take to sort 1,000 elements of 48 bytes.
func BenchmarkSort(b *testing.B) {
	type row struct {
		key int64
		_   [40]byte
	}
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]row, 1000)
	for i := range list {
		list[i].key = random.Int64()
	}
	byKey := func(x, y row) int { return cmp.Compare(x.key, y.key) }
	b.Run("sorting", func(b *testing.B) {
		for b.Loop() {
			sorting.By(slices.Clone(list), byKey)
		}
	})
	b.Run("slices", func(b *testing.B) {
		for b.Loop() {
			slices.SortFunc(slices.Clone(list), byKey)
		}
	})
}
