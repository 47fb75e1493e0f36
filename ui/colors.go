package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// colors are those of the screen, on the terminal that it has.
type colors struct {
	theme  Theme
	few    fewColors
	ground ground
}

// setProfile takes over how many colours the terminal has.
func (c *colors) setProfile(p tea.ColorProfileMsg) {
	c.few = fewColors{are16: p.String() == colors16}
	if p.String() != trueColor {
		c.few.convert = p.Convert
	}
	c.setTheme(c.theme)
}

// setTheme changes the theme.
func (c *colors) setTheme(t Theme) {
	if c.few.are16 {
		t = t.in16()
	}
	t.Few = c.few.convert != nil
	c.theme, c.few.known = t, nil
}

// toldGround takes the terminal's answer, or (nil) that there was none in time. A late one counts.
func (c *colors) toldGround(msg *tea.BackgroundColorMsg) {
	if msg == nil {
		c.ground.asked = true
		return
	}
	c.ground = ground{answered: true}
	if !msg.IsDark() {
		c.setTheme(lightTheme())
	}
}

// apply corrects the colours of a picture for the terminal.
func (c *colors) apply(a canvas.Area) {
	c.ground.apply(a, &c.theme)
	c.few.apply(a, &c.theme)
}

// copied are the same colours for another screen, which remembers its own corrections.
func (c *colors) copied() colors {
	out := *c
	out.few.known, out.ground.known = nil, nil
	return out
}
