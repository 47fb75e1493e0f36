package ui

import (
	"image/color"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// TestTerminalsThatDontTellTheirGround: if the terminal does not report its background colour, text must be legible
// both on black and on white, in all views. If the terminal reports the colour late, ddtop still uses it.
func TestTerminalsThatDontTellTheirGround(t *testing.T) {
	s := hogged(t, 120, 40)
	before := s.model.grid.String(true)
	s.model.Update(noGroundMsg{})
	if s.model.grid.String(true) == before {
		t.Fatal("the picture did not change")
	}
	black, white := canvas.RGB(style.BlackText), canvas.RGB(style.WhiteText)
	for _, keys := range [][]string{{"1"}, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}, {"7"}, {"?"}, {"esc", "!"}} {
		s.press(keys...)
		for y := range s.model.grid.H {
			for x := range s.model.grid.W {
				c := s.model.grid.At(x, y)
				if fg := c.Style.FG; c.Style.BG.IsSet() || !fg.IsSet() || c.Rune == ' ' || c.Rune == 0 || fg == s.model.Theme.Line {
					continue
				}
				if fg := c.Style.FG; fg.Contrast(white) < style.Graphic || fg.Contrast(black) < style.Graphic {
					t.Fatalf("%v: %q at %d,%d has the colour %s", keys, c.Rune, x, y, fg.Hex())
				}
			}
		}
	}
	s.press("esc", "1")
	dark := tea.BackgroundColorMsg{Color: color.Black}
	s.model.Update(dark)
	if s.model.grid.String(true) != before {
		t.Error("a dark ground was told late: the theme is not the dark one")
	}
	s.model.Update(noGroundMsg{})
	if s.model.grid.String(true) != before {
		t.Error("it was forgotten")
	}
	s.model.Update(tea.BackgroundColorMsg{Color: color.White})
	if s.model.Theme.Name != "light" {
		t.Error("a light ground was told")
	}
}

// TestAllProcessesKnowTheTerminal: with several processes, the screen of each process uses the terminal's colours and
// background.
func TestAllProcessesKnowTheTerminal(t *testing.T) {
	s := clusterScreen(t, 120, 40, scene.Options{})
	for _, p := range profiles {
		s.fleet.Update(p)
		s.fleet.Update(noGroundMsg{})
		first := s.fleet.screen()
		s.press(")")
		m := s.fleet.screen()
		if m == first || m.Few.Are16 != (p.String() == style.Colors16) || m.Few.Convert == nil || !m.Ground.Asked {
			t.Errorf("%s: another process's screen: %+v, %+v", p, m.Few.Are16, m.Ground.Asked)
		}
	}
}

// TestPlainTextHasNoColourOf16: on terminals with 16 colours, plain text must be grey in every theme, and have no other
// colour.
func TestPlainTextHasNoColourOf16(t *testing.T) {
	for _, name := range style.Themes[1:] {
		s := newScreen(t, 120, 40, demosource.Options{Length: 2 * time.Second}, scene.Options{Theme: name})
		s.model.Update(profiles[0])
		th := &s.model.Theme
		for what, c := range map[string]canvas.Color{"text": th.Text, "dim": th.Dim, "faint": th.Faint, "line": th.Line} {
			if !c.IsGrey() {
				t.Errorf("%s, %s: %s", name, what, c.Hex())
			}
		}
	}
}
