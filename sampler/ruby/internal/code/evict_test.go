package code

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestDecodeWhileTheDictionaryEvicts decodes a stack again after the Dictionary has evicted its IDs. The result must be
// the same as the first time, so the Decoder must not keep IDs of evicted names.
func TestDecodeWhileTheDictionaryEvicts(t *testing.T) {
	for _, g := range loadGoldens(t) {
		t.Run(g.Version, func(t *testing.T) {
			d, dict, err := decoderOf(&g.Process, g.Pages)
			if err != nil {
				t.Fatal(err)
			}
			var want [][]string
			use := func() (got [][]string) {
				for i := range g.Stacks {
					stack := raw(&g.Stacks[i])
					lines, err := describe(d, dict, &stack)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, lines)
				}
				return got
			}
			want = use()
			frames, _ := dict.Held()
			k := sampler.NewKeeper(dict, 1e9)
			var s sampler.Sample
			for range 2 * forgetGenerations {
				for range 6 { // in this time, no name is used
					s.TimeNS += 31e9
					k.Feed(&s, false)
				}
				if held, _ := dict.Held(); held != 0 {
					t.Fatalf("%d frames of %d are still there", held, frames)
				}
				if got := use(); !slices.EqualFunc(got, want, slices.Equal) {
					t.Fatalf("got %q\nwant %q", got, want)
				}
			}
		})
	}
}
