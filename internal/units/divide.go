package units

import "math/bits"

// Divide distributes n columns of the screen over parts in proportion to their sizes. First it rounds down. Then the
// columns that are left go to the parts with the largest remainders. If two remainders are equal, the earlier part
// comes first. If the sum of the parts is equal to whole, the parts get all n columns. A part that is not positive gets
// none. The result uses the memory of out if that is large enough.
func Divide(n int, parts []int64, whole int64, out []int) []int {
	var few [64]uint64 // avoids an allocation for up to 64 parts
	out, rests, left := out[:0], few[:0], n
	for _, p := range parts {
		columns, rest := Quota(n, p, whole)
		out, rests, left = append(out, columns), append(rests, rest), left-columns
	}
	for ; left > 0; left-- { // a part gets at most one more column, because its remainder is below one
		most := 0
		for i := range rests {
			if rests[i] > rests[most] {
				most = i
			}
		}
		if len(rests) == 0 || rests[most] == 0 {
			break
		}
		out[most]++
		rests[most] = 0
	}
	return out
}

// Percents turns parts into whole percents that add up to 100. They are all 0 if no part is positive.
func Percents(parts ...int64) []int { return Divide(100, parts, Sum(parts), nil) }

// Sum returns the sum of parts.
func Sum(parts []int64) (sum int64) {
	for _, p := range parts {
		sum += p
	}
	return sum
}

// Quota returns n*part/whole as a whole number of columns and a remainder. Remainders can be compared if whole is the
// same. It returns 0, 0 if part or whole is not positive. It multiplies with 128 bits, because 63 bits are too few, for
// example for a whole day of blame in ns times a width.
func Quota(n int, part, whole int64) (columns int, rest uint64) {
	if n <= 0 || part <= 0 || whole <= 0 {
		return 0, 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(min(part, whole)))
	q, r := bits.Div64(hi, lo, uint64(whole))
	return int(q), r
}
