package gvl

import (
	"math/rand/v2"
	"testing"
)

// TestPackedHistogram: nothing is lost by packing.
func TestPackedHistogram(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		h := new(histogram)
		for range rnd.IntN(200) {
			h.add(rnd.Int64N(1 << (1 + rnd.IntN(50))))
		}
		if got := h.pack().unpack(); *got != *h {
			t.Fatalf("%+v, want %+v", got, h)
		}
	}
	if (*histogram)(nil).pack().unpack() != nil {
		t.Error("a thread that never waited has a histogram")
	}
}
