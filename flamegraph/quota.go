package flamegraph

import "math/bits"

// quota returns w*part/whole: the whole columns, and the remainder as a number that compares between parts of one whole.
// It is 0, 0 for a part or whole that is not positive. The product is taken in 128 bits, since blame over a day
// times a width exceeds 63.
func quota(w int, part, whole int64) (columns int, rest uint64) {
	if w <= 0 || part <= 0 || whole <= 0 {
		return 0, 0
	}
	part = min(part, whole)
	hi, lo := bits.Mul64(uint64(w), uint64(part))
	q, r := bits.Div64(hi, lo, uint64(whole))
	return int(q), r
}

// mulDiv returns a*b/c rounded down, without overflow, for 0 ≤ a, 0 ≤ b ≤ c, 0 < c.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
