// Package odds computes bounds for tests whose results depend on chance. Such a test counts, for example, how many
// samples find a process in a state, or estimates the share of time that a method takes. A bound follows from the
// number of samples. With this bound, a test of correct code fails only once in 10⁹ runs. More samples give a tighter
// bound.
//
// The bounds hold only for independent samples. If a test samples faster than the measured thing changes, its samples
// are not independent. For example, twenty samples of one iteration of a loop count as one sample. A test can solve
// this in two ways. It can use the number of sampled iterations, not of samples, as n. Or it can spread the samples so
// that each one is in another iteration. Each test says which way it uses, and why its samples are independent.
package odds

import (
	"fmt"
	"math"
)

// FalseAlarm is the probability that a correct value is outside a bound by chance, in one comparison.
const FalseAlarm = 1e-9

// Deviations is how many standard deviations a mean may be away from its expected value. Use it if a test has measured
// the standard deviation. The test must have so many independent values that their mean is normally distributed.
const Deviations = 6.11

// AtLeast returns a lower bound for the number of hits in n independent tries, if each try hits with a probability of p
// or more. Fewer hits happen only once in 10⁹ runs. The bound is 0 if n is too small to prove anything. p is from 0 to
// 1.
func AtLeast(n int, p float64) int {
	check(n, p)
	return n - AtMost(n, 1-p)
}

// AtMost returns an upper bound for the number of hits in n independent tries, if each try hits with a probability of p
// or less. More hits happen only once in 10⁹ runs. The bound is n if n is too small to prove anything. p is from 0 to
// 1.
func AtMost(n int, p float64) int {
	check(n, p)
	if p == 0 {
		return 0
	}
	if p == 1 {
		return n
	}
	// The loop sums up the probabilities of n hits, n-1 hits and so on, until the sum exceeds FalseAlarm. The loop ends
	// at n*p hits at the latest. Until then each term is larger than the one before. Adding the small terms first keeps
	// the sum exact.
	over := 0.0
	term := float64(n) * math.Log(p) // the logarithm of the chance of k hits
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

// Within returns how far the mean of n independent values from 0 to 1 can be from its expected value. It uses
// Hoeffding's inequality, which holds for every distribution. If the values have different weights, use the result of
// Effective as n. The weights must not depend on the values.
func Within(n float64) float64 { return math.Sqrt(math.Log(2/FalseAlarm) / (2 * n)) }

// Apart returns how far two means of the same quantity can be from each other. The first is the mean of n independent
// values from 0 to 1, and the second is the mean of m such values.
func Apart(n, m float64) float64 { return Within(n * m / (n + m)) }

// Effective returns how many values of equal weight would prove as much as the given weighted values. sum is the sum of
// the weights, and squares is the sum of the squared weights.
func Effective(sum, squares float64) float64 { return sum * sum / squares }
