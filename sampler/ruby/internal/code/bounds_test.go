package code

import (
	"slices"
	"testing"
)

// TestGoldenWithoutRoom limits a Decoder's memory so much that it drops its caches at every step. It must still decode
// the same stacks.
func TestGoldenWithoutRoom(t *testing.T) {
	for _, g := range loadGoldens(t) {
		for _, limit := range []int{1, 2000, 20_000} {
			d, dict, err := decoderOf(&g.Process, g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			d.maxKept, d.Objects.MaxKept = limit, limit
			for range 3 {
				for _, s := range g.Stacks {
					stack := raw(&s)
					got, err := describe(d, dict, &stack)
					if err != nil || !slices.Equal(got, s.Want) {
						t.Errorf("%s, %s, with %d bytes: %v, got\n%q\nwant\n%q", g.Version, s.Thread, limit, err, got, s.Want)
					}
				}
			}
			sum := 0
			for _, q := range d.iseqs {
				sum += q.cost()
			}
			for _, h := range d.methodEntries {
				sum += h.cost()
			}
			for _, e := range d.envs {
				sum += e.cost()
			}
			// The sum may exceed the limit, because the last entry that was read may alone be larger than the limit.
			if d.kept < sum || sum > limit+100_000 {
				t.Errorf("%s: %d bytes are kept, by the account %d, of %d", g.Version, sum, d.kept, limit)
			}
		}
	}
}
