package style

import (
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// ground is what is known of the terminal's own background. tmux 3.3 and GNU screen don't tell theirs, and on a light one
// the dark theme's text can't be seen.
type ground struct {
	answered bool // it is known
	Asked    bool // in vain
	known    map[canvas.Style]canvas.Style
}

// apply makes the dark theme legible on any ground that may be the terminal's: plain text has the terminal's own colour, and
// colours are as dark as white needs, which black can bear.
func (g *ground) apply(a canvas.Area, t *Theme) {
	if g.answered || !g.Asked {
		return
	}
	a.Restyle(func(s canvas.Style) canvas.Style {
		if s.BG.IsSet() || !s.FG.IsSet() {
			return s
		}
		corrected, ok := g.known[s]
		if !ok {
			if g.known == nil || len(g.known) >= maxKnownStyles {
				g.known = make(map[canvas.Style]canvas.Style)
			}
			corrected = s
			corrected.FG = MixUntil(s.FG, canvas.RGB(BlackText), canvas.RGB(WhiteText), Legible)
			if s.FG == t.Text {
				corrected.FG = 0
			}
			g.known[s] = corrected
		}
		return corrected
	})
}
