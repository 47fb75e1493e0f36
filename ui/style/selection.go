package style

import (
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// OnSelection puts a style on the ground of a selected row.
func (t *Theme) OnSelection(s canvas.Style) canvas.Style {
	s.BG = t.Selection
	if s.FG.IsSet() {
		s.FG = Toward(s.FG, t.Text, t.Selection)
	}
	return s
}

// PutGround puts what is drawn on the ground of a selected row. Bars and other signs that are not letters keep their colour, by
// which they are told.
func (t *Theme) PutGround(a canvas.Area) {
	a.RestyleRunes(func(r rune, s canvas.Style) canvas.Style {
		if r >= '▀' && r <= '▟' || r == '■' {
			s.BG = t.Selection
			return s
		}
		return t.OnSelection(s)
	})
}

// Highlight marks a selected row: by its ground and, without colours, by bold.
func (t *Theme) Highlight(a canvas.Area, focused bool) {
	t.PutGround(a)
	a.Restyle(func(s canvas.Style) canvas.Style {
		if focused {
			s.Attr |= canvas.Bold
		}
		return s
	})
}
