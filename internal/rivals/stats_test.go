package rivals

import (
	"math"
	"slices"
	"testing"
)

// median returns the middle value, or the mean of the two values in the middle. It returns NaN if there is no value.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// confidence is the confidence of all intervals.
const confidence = 0.95

// medianInterval returns the 95 % interval of the median: a range between two of the values that contains the true
// median with this confidence. It leaves out the same number of values at both ends, as many as possible. The interval
// is right for any distribution (sign test). With fewer than six values, no range reaches the confidence. Then the
// interval is from the smallest value to the largest.
func medianInterval(values []float64) (low, high float64) {
	n := len(values)
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	// outside is the chance that the true median lies outside the interval that leaves out k values at each end.
	outside, ways, k := 0.0, 1.0, 0
	for ; k < n/2; k++ {
		outside += 2 * ways / math.Pow(2, float64(n))
		if outside > 1-confidence {
			break
		}
		ways *= float64(n-k) / float64(k+1)
	}
	k = max(k-1, 0)
	return sorted[k], sorted[n-1-k]
}

// mean returns the mean value. It is NaN if there is no value.
func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v
	}
	return m / float64(len(values))
}

func percent(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 9, 2}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.values, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of none: %v", got)
	}
}

// TestMedianInterval: the interval of the median begins and ends at the ranks that tables of the sign test list for 95
// %.
func TestMedianInterval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{1, 1, 1}, {5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {12, 3, 10}, {20, 6, 15}, {100, 40, 61}} {
		values := make([]float64, c.n)
		for i := range values {
			values[i] = float64(c.n - i)
		}
		if low, high := medianInterval(values); low != float64(c.low) || high != float64(c.high) {
			t.Errorf("of %d values: rank %v to %v, want %d to %d", c.n, low, high, c.low, c.high)
		}
	}
}
