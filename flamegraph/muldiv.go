package flamegraph

import "math/bits"

// mulDiv returns a*b/c rounded down, without overflow, for 0 ≤ a, 0 ≤ b ≤ c, 0 < c.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
