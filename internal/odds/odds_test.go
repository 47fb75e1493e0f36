package odds

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// more returns the probability of more than k hits in n tries, computed exactly.
func more(n, k int, p float64) float64 {
	hit := new(big.Rat).SetFloat64(p)
	miss := new(big.Rat).Sub(big.NewRat(1, 1), hit)
	power := func(b *big.Rat, e int) *big.Rat {
		x := big.NewRat(1, 1)
		for range e {
			x.Mul(x, b)
		}
		return x
	}
	sum := new(big.Rat)
	for i := k + 1; i <= n; i++ {
		term := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(i)))
		sum.Add(sum, term.Mul(term, power(hit, i)).Mul(term, power(miss, n-i)))
	}
	f, _ := sum.Float64()
	return f
}

// TestBounds compares AtMost and AtLeast with exact sums of probabilities. The probability of a result beyond a bound
// must be at most FalseAlarm. If the bound were tighter by one, the probability would be higher.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		n int
		p float64
	}{{1, .5}, {10, .5}, {29, .5}, {30, .5}, {31, .5}, {60, .01}, {60, .25}, {60, .99}, {122, .95}, {40, 1e-6}} {
		k := AtMost(c.n, c.p)
		if past := more(c.n, k, c.p); past > FalseAlarm {
			t.Errorf("%d tries of %g: more than %d hits come with a chance of %g", c.n, c.p, k, past)
		}
		if k > 0 {
			if at := more(c.n, k-1, c.p); at <= FalseAlarm {
				t.Errorf("%d tries of %g: %d is too many, more than %d hits come with a chance of %g already", c.n, c.p, k, k-1, at)
			}
		}
		if got, want := AtLeast(c.n, 1-c.p), c.n-k; got != want {
			t.Errorf("%d tries of %g: at least %d hits, and %d misses at most", c.n, 1-c.p, got, k)
		}
	}
	for _, c := range []struct {
		n     int
		p     float64
		least int
		most  int
	}{
		{0, .5, 0, 0}, {5, 0, 0, 0}, {5, 1, 5, 5}, {29, .5, 0, 29}, {1_000_000, .5, 497_001, 502_999},
	} {
		least, most := AtLeast(c.n, c.p), AtMost(c.n, c.p)
		if math.Abs(float64(least-c.least)) > 1 || math.Abs(float64(most-c.most)) > 1 {
			t.Errorf("%d tries of %g: from %d to %d hits, want %d to %d", c.n, c.p, least, most, c.least, c.most)
		}
	}
}

// TestMeans: in 2,000 runs, no mean may be outside of the bounds that Within and Apart compute. The bounds must not be
// too wide either: none is more than four times the largest error.
func TestMeans(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	mean := func(n int) float64 {
		hits := 0
		for range n {
			if rnd.Float64() < .3 {
				hits++
			}
		}
		return float64(hits) / float64(n)
	}
	const n, m = 400, 150
	worst, apart := 0.0, 0.0
	for range 2000 {
		a, b := mean(n), mean(m)
		worst, apart = max(worst, math.Abs(a-.3)), max(apart, math.Abs(a-b))
	}
	if w := Within(n); worst > w || worst < w/4 {
		t.Errorf("the farthest of 2,000 means is off by %.3f, the bound is %.3f", worst, w)
	}
	if w := Apart(n, m); apart > w || apart < w/4 {
		t.Errorf("the farthest of 2,000 pairs of means are %.3f apart, the bound is %.3f", apart, w)
	}
	if beyond := math.Erfc(Deviations / math.Sqrt2); beyond > FalseAlarm || beyond < FalseAlarm*.9 {
		t.Errorf("%g deviations are exceeded with a chance of %g", Deviations, beyond)
	}
	if got := Effective(3*7, 3*7*7); got != 3 {
		t.Errorf("three values of weight 7 count as %g", got)
	}
}
