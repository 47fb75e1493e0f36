package style

import (
	"slices"
	"testing"
)

// TestWrapKeepsUnits: Wrap must not break a line between a number and its unit.
func TestWrapKeepsUnits(t *testing.T) {
	for _, x := range []struct {
		text string
		want []string
	}{
		{"it causes 81 % of all", []string{"it causes", "81 % of all"}},
		{"waited 120 ms, then", []string{"waited", "120 ms, then"}},
		{"seen 7 smaller ones", []string{"seen 7", "smaller ones"}},
	} {
		if got, whole := Wrap(x.text, 12, 3); !whole || !slices.Equal(got, x.want) {
			t.Errorf("%q: %q", x.text, got)
		}
	}
}
