package gvl

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/sampler"
)

// TestClassifierSkipsNothing: if nothing has changed for a thread, the Classifier keeps its last result instead of
// classifying it again. A Classifier that always classifies again must give the same result.
func TestClassifierSkipsNothing(t *testing.T) {
	for _, era := range []sampler.Era{sampler.EraFlag, sampler.EraOwner, sampler.EraSched} {
		for seed := range uint64(20) {
			dict := sampler.NewDictionary()
			w := gvltest.NewWorld(seed, 12, 1+int(seed%3), dict)
			if seed%2 == 1 {
				w.Churn, w.Gaps = .02, .01
			}
			quick, whole := NewClassifier(gvltest.ProcOf(era), dict), NewClassifier(gvltest.ProcOf(era), dict)
			rng := rand.New(rand.NewPCG(seed, 78))
			for n := range 500 {
				s := w.Sample()
				if seed%3 == 0 {
					streamtest.Damage(rng, s)
				}
				if n%10 != 0 {
					s.Depth = sampler.LockTick
				}
				clear(whole.out) // without earlier results nothing is skipped
				whole.places = nil
				a, b := quick.Classify(s), whole.Classify(s)
				for i := range a {
					b[i].Unchanged = a[i].Unchanged
					if a[i] != b[i] {
						t.Fatalf("era %v, seed %d, sample %d: %+v, anew %+v", era, seed, n, a[i], b[i])
					}
				}
			}
		}
	}
}
