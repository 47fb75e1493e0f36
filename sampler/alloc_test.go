package sampler

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAllocSharesCoverTheTruth: AllocShare.Error describes a 95 % confidence interval. The test makes shares that
// scatter around a known value. The interval must contain this value in about 95 of 100 runs. With few instants, this
// may happen a little less often.
func TestAllocSharesCoverTheTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs, looks, truth = 400, 60, .3
	held := 0
	for range runs {
		var a, from AllocClasses
		apple := AllocClass{Name: "Apple"}
		pear := AllocClass{Name: "Pear"}
		for look := range 2 * looks {
			if look == looks {
				from = a
				from.Classes = []AllocClass{apple, pear}
			}
			whole := 1000 * (1 + random.Float64())
			part := whole * min(max(truth+.1*random.NormFloat64(), 0), 1)
			a.Instants, a.Objects, a.Squares = a.Instants+1, a.Objects+whole, a.Squares+whole*whole
			for c, x := range map[*AllocClass]float64{&apple: part, &pear: whole - part} {
				c.Objects, c.Squares, c.Products = c.Objects+x, c.Squares+x*x, c.Products+x*whole
			}
		}
		a.Classes = []AllocClass{apple, pear}
		shares, instants := a.Since(&from)
		if instants != looks || len(shares) != 2 {
			t.Fatalf("%d instants, %v", instants, shares)
		}
		if sum := shares[0].Share + shares[1].Share; math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the shares sum to %v", sum)
		}
		if shares[0].Error > .1 {
			t.Fatalf("an error of %v", shares[0].Error)
		}
		if math.Abs(shares[0].Share-truth) <= shares[0].Error {
			held++
		}
	}
	if held < runs*90/100 || held > runs*99/100 {
		t.Errorf("the interval held the truth in %d of %d runs", held, runs)
	}
}

func TestAllocSinceNothing(t *testing.T) {
	var none *AllocClasses
	if shares, n := none.Since(nil); shares != nil || n != 0 {
		t.Errorf("%v, %d", shares, n)
	}
	one := &AllocClasses{Instants: 1, Objects: 10, Squares: 100, Classes: []AllocClass{{"Apple", 10, 100, 100}}}
	if shares, n := one.Since(nil); n != 1 || len(shares) != 1 || shares[0].Share != 1 || !math.IsNaN(shares[0].Error) {
		t.Errorf("%v, %d", shares, n)
	}
	if shares, n := one.Since(one); shares != nil || n != 0 {
		t.Errorf("%v, %d", shares, n)
	}
}
