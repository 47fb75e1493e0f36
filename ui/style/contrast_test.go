package style

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// TestColoursOfTextAreLegible: each colour of text has the contrast with the theme's background that WCAG requires. The
// words for states must also have this contrast on the background of a selected row.
func TestColoursOfTextAreLegible(t *testing.T) {
	for _, name := range Themes[1:] {
		theme, err := ThemeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for s, c := range theme.States {
			if got := theme.Readable(c).Contrast(theme.Background); got < Legible {
				t.Errorf("%s: %s has a contrast of %.1f", name, gvl.State(s), got)
			}
			if got := Toward(theme.Readable(c), theme.Text, theme.Selection).Contrast(theme.Selection); got < Legible {
				t.Errorf("%s: %s on a selected row has a contrast of %.1f", name, gvl.State(s), got)
			}
		}
		for what, c := range map[string]canvas.Color{"text": theme.Text, "dim": theme.Dim, "accent": theme.Accent, "good": theme.Good, "warn": theme.Warn, "crit": theme.Crit} {
			if got := c.Contrast(theme.Background); got < Legible {
				t.Errorf("%s: %s has a contrast of %.1f", name, what, got)
			}
		}
	}
}

// TestLettersOfStatesAreLegible: in the timeline, the shade behind a letter depends on the state's share of the time.
// But all letters of a state have the same colour. On each shade, this colour must have the contrast that WCAG requires
// for graphics.
func TestLettersOfStatesAreLegible(t *testing.T) {
	for _, name := range Themes[1:] {
		theme, err := ThemeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := range gvl.NumStates {
			if gvl.State(s).Idle() { // idle states are faint on purpose
				continue
			}
			letters := make(map[canvas.Color]bool)
			for _, share := range []float64{0.3, 0.5, 0.7, 1} {
				c := timeline.Cell{Dominant: gvl.State(s), Share: share, SpanNS: 1}
				c.NS[s] = 1
				_, st := theme.StateCell(&c, true, nil)
				letters[st.FG] = true
				if got := st.FG.Contrast(st.BG); got < Graphic {
					t.Errorf("%s: the letter of %s at a share of %.1f has a contrast of %.1f", name, gvl.State(s), share, got)
				}
			}
			if len(letters) > 1 {
				t.Errorf("%s: the letters of %s have %d colours", name, gvl.State(s), len(letters))
			}
		}
	}
}
