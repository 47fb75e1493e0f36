package style

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Colors are those of the screen, on the terminal that it has.
type Colors struct {
	Theme  Theme
	Few    fewColors
	Ground ground
}

// SetProfile takes over how many colours the terminal has.
func (c *Colors) SetProfile(p tea.ColorProfileMsg) {
	c.Few = fewColors{Are16: p.String() == Colors16}
	if p.String() != TrueColor {
		c.Few.Convert = p.Convert
	}
	c.SetTheme(c.Theme)
}

// SetTheme changes the theme.
func (c *Colors) SetTheme(t Theme) {
	if c.Few.Are16 {
		t = t.In16()
	}
	t.Few = c.Few.Convert != nil
	c.Theme, c.Few.known = t, nil
}

// ToldGround takes the terminal's answer, or (nil) that there was none in time. A late one counts.
func (c *Colors) ToldGround(msg *tea.BackgroundColorMsg) {
	if msg == nil {
		c.Ground.Asked = true
		return
	}
	c.Ground = ground{answered: true}
	if !msg.IsDark() {
		c.SetTheme(lightTheme())
	}
}

// Apply corrects the colours of a picture for the terminal.
func (c *Colors) Apply(a canvas.Area) {
	c.Ground.apply(a, &c.Theme)
	c.Few.apply(a, &c.Theme)
}

// Copied are the same colours for another screen, which remembers its own corrections.
func (c *Colors) Copied() Colors {
	out := *c
	out.Few.known, out.Ground.known = nil, nil
	return out
}
