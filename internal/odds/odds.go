// Package odds computes the bounds of tests that look at something by chance: how often a racing process is met in a state,
// what share of its time a method takes. A bound follows from the number of samples, so that a test that looks at what is
// right fails once in 10⁹ runs, and one that looks for longer is stricter by itself.
//
// All of it holds for samples that are independent of one another. Samples taken faster than what they look at changes are
// not: twenty looks at one turn of a loop are one look. Then n is the number of turns that were seen (episodes), or the
// looks are spread so that each meets another turn. Each test says which of the two it does, and why that holds.
package odds

import (
	"fmt"
	"math"
)

// FalseAlarm is how likely a bound is missed by chance, in one comparison.
const FalseAlarm = 1e-9

// Deviations is how many standard deviations the mean of many independent values can lie from what is to be expected of
// them, where the deviation was measured and the values are so many that their mean is normally distributed.
const Deviations = 6.11

// AtLeast returns the smallest number of hits that n independent tries give, each of which hits with a chance of p or more:
// fewer come about once in 10⁹ runs. It is 0 where so few tries prove nothing. p is from 0 to 1.
func AtLeast(n int, p float64) int {
	check(n, p)
	return n - AtMost(n, 1-p)
}

// AtMost returns the greatest number of hits that n independent tries give, each of which hits with a chance of p or less: more
// come about once in 10⁹ runs. It is n where so few tries prove nothing. p is from 0 to 1.
func AtMost(n int, p float64) int {
	check(n, p)
	if p == 0 {
		return 0
	}
	if p == 1 {
		return n
	}
	// The chance of more than k hits is summed from n hits down: its terms grow up to n*p, past which no bound lies.
	over := 0.0
	term := float64(n) * math.Log(p) // of k hits, as a logarithm
	odds := math.Log1p(-p) - math.Log(p)
	for k := n; k > 0; k-- {
		if over += math.Exp(term); over > FalseAlarm {
			return k
		}
		term += odds + math.Log(float64(k)) - math.Log(float64(n-k+1))
	}
	return 0
}

func check(n int, p float64) {
	if n < 0 || !(p >= 0 && p <= 1) {
		panic(fmt.Sprintf("odds: %d tries with a chance of %g", n, p))
	}
}

// Within returns how far the mean of n independent values from 0 to 1 can be from what is to be expected of them
// (Hoeffding's inequality, whatever the values' distribution). The mean of values that count differently, by weights that
// do not depend on the values, has Effective of them.
func Within(n float64) float64 { return math.Sqrt(math.Log(2/FalseAlarm) / (2 * n)) }

// Apart returns how far two means can be from each other that look at the same thing, one by n and the other by m independent
// values from 0 to 1.
func Apart(n, m float64) float64 { return Within(n * m / (n + m)) }

// Effective returns how many values of one weight tell as much as those whose weights, and the weights' squares, have these
// sums.
func Effective(sum, squares float64) float64 { return sum * sum / squares }
