package gvl

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h, other Histogram
	var all []int64
	for range 5000 {
		ns := int64(1) << rng.IntN(40)
		ns += rng.Int64N(ns)
		all = append(all, ns)
		if rng.IntN(2) == 0 {
			h.Add(ns)
		} else {
			other.Add(ns)
		}
	}
	h.Merge(&other)
	slices.Sort(all)
	for _, q := range []float64{.01, .5, .9, .99, 1} {
		rank := int(q*float64(len(all))) - 1
		want, got := all[max(rank, 0)], h.Quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/histSub)+1<<histMinBits {
			t.Errorf("quantile %v: %d, exact %d", q, got, want)
		}
	}
	for b := 1; b < histBuckets; b++ {
		if lower := BucketUpper(b - 1); Bucket(lower) != b || Bucket(BucketUpper(b)-1) != b {
			t.Fatalf("bucket %d: edges %d, %d belong to %d, %d", b, lower, BucketUpper(b), Bucket(lower), Bucket(BucketUpper(b)-1))
		}
	}
	if (&Histogram{}).Quantile(.5) != 0 || Bucket(1<<60) != histBuckets-1 {
		t.Error("edges")
	}
}
