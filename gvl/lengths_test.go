package gvl

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestToldLengths: the lengths in one row of a table ascend, even if only bounds of the waits are known. Each number,
// read with its "≤" or "≥", is true of the real lengths.
func TestToldLengths(t *testing.T) {
	shares := []float64{.5, .9, .99, 1}
	r := rand.New(rand.NewPCG(29, 1))
	signs := map[Bound]int{}
	for range 2000 {
		var l Lengths
		var truth []int64
		open := false
		for range 1 + r.IntN(40) {
			ns := int64(1e6) << r.IntN(11)
			least, most := ns, ns
			if r.IntN(3) == 0 { // what looks like one wait may be several waits, so only bounds are known
				least, most = r.Int64N(ns), ns+r.Int64N(2*ns)
			}
			w := Wait{ToNS: most, LeastNS: least, MostNS: most, InProgress: r.IntN(60) == 0}
			open = open || w.InProgress
			l.Add(&w)
			truth = append(truth, ns)
		}
		slices.Sort(truth)
		told := l.Told(shares...)
		for i, f := range told {
			if signs[f.Bound]++; i > 0 && f.NS < told[i-1].NS {
				t.Fatalf("the lengths are told as %v", told)
			}
			if open {
				continue // a wait in progress can end at any length
			}
			want := truth[max(int(shares[i]*float64(len(truth))+.9999), 1)-1]
			off := want/PlainParts + want/histSub
			if f.Bound != AtMost && want < f.NS-off || f.Bound != AtLeast && want > f.NS+off {
				t.Fatalf("%g is told as %s, and is %d ns of %v", shares[i], f.Prose(), want, truth)
			}
		}
	}
	if len(signs) != 3 || signs[AtMost] < 500 || signs[AtLeast] < 50 {
		t.Errorf("%v", signs)
	}
}
