package style

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// People with any kind of colour blindness can distinguish these colours of Okabe and Ito (Color Universal Design,
// 2008). Vermilion is used only for waiting for the GVL.
const (
	okabeOrange     = 0xE69F00
	OkabeSkyBlue    = 0x56B4E9
	OkabeYellow     = 0xF0E442
	OkabeBlue       = 0x0072B2
	OkabeVermilion  = 0xD55E00
	WhiteText       = 0xFFFFFF
	BlackText       = 0x000000
	selectionDark   = 0x303846
	selectionLight  = 0xDCE6F5
	backgroundDark  = 0x14171C
	backgroundLight = 0xFFFFFF
)

// Theme is a set of colours for the screen. It holds no state.
type Theme struct {
	Name string
	// Background is the assumed colour of the terminal's background. Weak colours are mixtures of a colour with it.
	// This background is drawn only in picture files, and not on the terminal.
	Background canvas.Color
	// Text, Dim and Faint are plain text of three strengths, from strong to weak. Line is for rules and borders.
	Text, Dim, Faint, Line canvas.Color
	// Selection is the background of the selected row. Accent is the colour of the part of the screen that receives key
	// presses.
	Selection, Accent canvas.Color
	// Good, Warn and Crit are the colours of findings by severity. The state of sampling in the first line, such as
	// LIVE, has the same colours.
	Good, Warn, Crit canvas.Color
	// States has a colour for each state.
	States [gvl.NumStates]canvas.Color
	// Owners are the colours that distinguish threads in the GVL lane (the row that shows who held the GVL). The
	// threads get them one after the other.
	Owners []canvas.Color
	// Flame has the colours of frames by the origin of their code (OriginOf). Rows of threads and the root have the
	// colour of OriginUnknown.
	Flame [sampler.NumOrigins]canvas.Color
	// Weakest is how strong a state's colour is if the state has the smallest share, from 0 to 1. Even then the colour
	// must be recognizable, and the letter on it legible.
	Weakest float64
	// Few is set if the terminal has at most 256 colours. In the flamegraph, the name of a frame then does not make its
	// colour lighter or darker. Otherwise the terminal's nearest colour could be a very different one.
	Few bool
	// Flat is set if the terminal has so few colours that there are no shades. A state then has its full colour,
	// whatever its share is.
	Flat bool
	// Letters is set if there are no colours. Only the letter of a cell then shows the cell's state.
	Letters bool
}

// In16 returns the theme for a terminal with 16 colours. Each of the seven important states has a colour that no other
// state has. Colours are not mixed with the background, because a weak green would become black.
func (t Theme) In16() Theme {
	t.Flat = true
	for s, rgb := range map[gvl.State]uint32{gvl.Running: 0x008000, gvl.Waiting: 0xFF0000, gvl.GC: 0xFFFF00, gvl.Stalled: 0x800080,
		gvl.Native: 0x008080, gvl.IO: 0x000080, gvl.Lock: 0x808000} {
		t.States[s] = canvas.RGB(rgb)
	}
	// Plain text gets two of the terminal's greys. They are set here, because the conversion of the theme's own colours
	// would make a bluish black blue.
	const grey, bright = 0x606060, 0x909090
	t.Text, t.Dim, t.Faint, t.Line = canvas.RGB(WhiteText), canvas.RGB(bright), canvas.RGB(grey), canvas.RGB(grey)
	if t.Background.Light() {
		t.Text, t.Dim, t.Faint, t.Line = canvas.RGB(BlackText), canvas.RGB(grey), canvas.RGB(grey), canvas.RGB(bright)
	}
	return t
}

// Themes are the names that ThemeByName accepts.
var Themes = []string{"auto", "dark", "light", "high-contrast"}

// ThemeByName returns the theme that has this name. The names "" and "auto" mean the dark theme. If the terminal then
// reports a light background, the caller changes to the light theme.
func ThemeByName(name string) (Theme, error) {
	switch name {
	case "", "auto", "dark":
		return darkTheme(), nil
	case "light":
		return lightTheme(), nil
	case "high-contrast":
		return highContrastTheme(), nil
	}
	return Theme{}, fmt.Errorf("no theme %q: there are %v", name, Themes)
}

func stateColors() (colors [gvl.NumStates]canvas.Color) {
	for s := range gvl.NumStates {
		if rgb := s.Color(); rgb != 0 {
			colors[s] = canvas.RGB(rgb)
		}
	}
	return colors
}

func darkTheme() Theme {
	t := Theme{
		Name:       "dark",
		Weakest:    0.5,
		Background: canvas.RGB(backgroundDark),
		Text:       canvas.RGB(0xE6E9EF),
		Dim:        canvas.RGB(0x9AA3B2),
		Faint:      canvas.RGB(0x5C6675),
		Line:       canvas.RGB(0x414A58),
		Selection:  canvas.RGB(selectionDark),
		Accent:     canvas.RGB(OkabeSkyBlue),
		Good:       canvas.RGB(0x35C796),
		Warn:       canvas.RGB(okabeOrange),
		Crit:       canvas.RGB(0xFF5555),
		States:     stateColors(),
		Owners:     owners(0x56B4E9, 0xE69F00, 0x35C796, 0xCC79A7, 0xF0E442, 0x8FA8FF, 0xFF9D6E, 0x7FD6D6),
		Flame:      flames(0xE39A5B, 0xB79BE0, 0x7DB3E3, 0x8CC39A, 0x9AA6B8),
	}
	t.States[gvl.Parked] = canvas.RGB(0x4A5361)
	t.States[gvl.Sleeping] = canvas.RGB(0x333B47)
	t.States[gvl.Unknown] = canvas.RGB(0x8A8F99)
	return t
}

func lightTheme() Theme {
	t := Theme{
		Name:       "light",
		Weakest:    0.35,
		Background: canvas.RGB(backgroundLight),
		Text:       canvas.RGB(0x1C2430),
		Dim:        canvas.RGB(0x566070),
		Faint:      canvas.RGB(0x8A94A3),
		Line:       canvas.RGB(0xB9C1CC),
		Selection:  canvas.RGB(selectionLight),
		Accent:     canvas.RGB(OkabeBlue),
		Good:       canvas.RGB(0x00805D),
		Warn:       canvas.RGB(0xA86400),
		Crit:       canvas.RGB(0xC01C28),
		States:     stateColors(),
		Owners:     owners(0x0072B2, 0xA86400, 0x00805D, 0xA84C80, 0x807600, 0x4457C0, 0xC04A00, 0x1F8080),
		Flame:      flames(0xF0A871, 0xC9B3E0, 0x9CC7EA, 0xA9D3B4, 0xC5CCD6),
	}
	t.States[gvl.Parked] = canvas.RGB(0xC3CAD4)
	t.States[gvl.Sleeping] = canvas.RGB(0xDDE2E8)
	t.States[gvl.Unknown] = canvas.RGB(0x8A8F99)
	return t
}

func highContrastTheme() Theme {
	t := darkTheme()
	t.Name = "high-contrast"
	t.Weakest = 0.7
	t.Background = canvas.RGB(BlackText)
	t.Text = canvas.RGB(WhiteText)
	t.Dim = canvas.RGB(0xE0E0E0)
	t.Faint = canvas.RGB(0xB0B0B0)
	t.Line = canvas.RGB(0xA0A0A0)
	t.Selection = canvas.RGB(0x004C99)
	t.Accent = canvas.RGB(0xFFFF00)
	t.States[gvl.Running] = canvas.RGB(0x00C853)
	t.States[gvl.Waiting] = canvas.RGB(0xFF6D00)
	t.States[gvl.IO] = canvas.RGB(0x2979FF)
	t.States[gvl.Parked] = canvas.RGB(0x606060)
	t.States[gvl.Sleeping] = canvas.RGB(0x404040)
	t.Flame = flames(0xFF9E57, 0xC79BFF, 0x6EC1FF, 0x7BE08F, 0xBDBDBD)
	return t
}

func owners(rgb ...uint32) []canvas.Color {
	out := make([]canvas.Color, len(rgb))
	for i, v := range rgb {
		out[i] = canvas.RGB(v)
	}
	return out
}

func flames(app, gem, stdlib, core, native uint32) [sampler.NumOrigins]canvas.Color {
	return [sampler.NumOrigins]canvas.Color{sampler.OriginApp: canvas.RGB(app), sampler.OriginGem: canvas.RGB(gem), sampler.OriginStdlib: canvas.RGB(stdlib),
		sampler.OriginCore: canvas.RGB(core), sampler.OriginUnknown: canvas.RGB(native)}
}

// OriginOf returns the origin of a frame's code. If code was evaluated at run time, its origin may not be known. Then
// OriginOf returns the origin of the program's own code.
func OriginOf(f sampler.Frame) sampler.Origin {
	if o := f.From(); o != sampler.OriginEval {
		return o
	}
	return sampler.OriginApp
}

// Plain and the following methods return the styles for plain text of different strengths, and for lines.
func (t *Theme) Plain() canvas.Style  { return canvas.Style{FG: t.Text} }
func (t *Theme) Bold() canvas.Style   { return canvas.Style{FG: t.Text, Attr: canvas.Bold} }
func (t *Theme) Dimmed() canvas.Style { return canvas.Style{FG: t.Dim} }
func (t *Theme) Faded() canvas.Style  { return canvas.Style{FG: t.Faint} }
func (t *Theme) Rule() canvas.Style   { return canvas.Style{FG: t.Line} }

// On returns the style for text on a coloured background. The text is black or white, whichever has more contrast.
func On(bg canvas.Color) canvas.Style {
	fg := canvas.RGB(WhiteText)
	if black := canvas.RGB(BlackText); black.Contrast(bg) > fg.Contrast(bg) {
		fg = black
	}
	return canvas.Style{FG: fg, BG: bg}
}

// Owner returns the colour of a thread in the GVL lane (the row that shows who held the GVL).
func (t *Theme) Owner(ident int) canvas.Color {
	if ident <= 0 {
		return t.Dim
	}
	return t.Owners[(ident-1)%len(t.Owners)]
}

// OnSelection changes a style for text in a selected row, which has another background.
func (t *Theme) OnSelection(s canvas.Style) canvas.Style {
	s.BG = t.Selection
	if s.FG.IsSet() {
		s.FG = Toward(s.FG, t.Text, t.Selection)
	}
	return s
}

// PutGround gives an area the background of a selected row, after the area was drawn. Bars and other graphic signs keep
// their own colour, because it has a meaning.
func (t *Theme) PutGround(a canvas.Area) {
	a.RestyleRunes(func(r rune, s canvas.Style) canvas.Style {
		if r >= '▀' && r <= '▟' || r == '■' {
			s.BG = t.Selection
			return s
		}
		return t.OnSelection(s)
	})
}

// Highlight marks a selected row by its background. If the row's list receives the key presses (focused), it also makes
// the text bold.
func (t *Theme) Highlight(a canvas.Area, focused bool) {
	t.PutGround(a)
	a.Restyle(func(s canvas.Style) canvas.Style {
		if focused {
			s.Attr |= canvas.Bold
		}
		return s
	})
}

// Colors are the colours of the screen, after they were adapted to the terminal.
type Colors struct {
	Theme  Theme
	Few    fewColors
	Ground ground
}

// SetProfile stores how many colours the terminal has.
func (c *Colors) SetProfile(p tea.ColorProfileMsg) {
	c.Few = fewColors{Are16: p.String() == Colors16}
	if p.String() != TrueColor {
		c.Few.Convert = p.Convert
	}
	c.SetTheme(c.Theme)
}

// SetTheme changes the theme, and adapts it to the terminal.
func (c *Colors) SetTheme(t Theme) {
	t.Letters = c.Theme.Letters
	if c.Few.Are16 {
		t = t.In16()
	}
	t.Few = c.Few.Convert != nil
	c.Theme, c.Few.known = t, nil
}

// SetGround handles the terminal's answer about its background colour. msg is nil if no answer came in time. If an
// answer comes later, the caller calls SetGround again with this answer.
func (c *Colors) SetGround(msg *tea.BackgroundColorMsg) {
	if msg == nil {
		c.Ground.Asked = true
		return
	}
	c.Ground = ground{answered: true}
	if !msg.IsDark() {
		c.SetTheme(lightTheme())
	}
}

// Apply corrects the colours of a picture for the terminal, after the picture was drawn.
func (c *Colors) Apply(a canvas.Area) {
	c.Ground.apply(a, &c.Theme)
	c.Few.apply(a, &c.Theme)
}

// Copied returns a copy of the colours for the screen of another process. The copy has a cache of its own.
func (c *Colors) Copied() Colors {
	out := *c
	out.Few.known, out.Ground.known = nil, nil
	return out
}

// ground is what ddtop knows about the terminal's background. tmux 3.3 and GNU screen do not report its colour. The
// background may then be light, and the dark theme's text would not be legible on it.
type ground struct {
	answered bool // the terminal reported its background
	Asked    bool // the terminal was asked for its background, but did not answer in time
	known    map[canvas.Style]canvas.Style
}

// apply makes the dark theme legible if the terminal's background is not known. Plain text gets the terminal's own
// colour. Other colours become so dark that they are legible on white, and they are still legible on black.
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
