package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// headColumn is the name of a column over a table. S are the orders that the table can be sorted in.
type headColumn[S comparable] struct {
	width int // 0: there is no room for the column
	text  string
	by    S // the order that a click asks for; that of the table unsorted: none
	right bool
}

// drawTableHead writes the names of a table's columns from column x on, marks the one that it is sorted by, and makes
// clicks sort it. unsorted is the order of a table that was not sorted.
func drawTableHead[S comparable](a canvas.Area, x int, m *scene, sorted, unsorted S, columns []headColumn[S], sort func(*Model, S)) {
	t := &m.theme
	for _, c := range columns {
		if c.width == 0 {
			continue
		}
		text, st := c.text, t.dim()
		if c.by == sorted && c.by != unsorted {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
			text += "▼"
		}
		if c.right {
			text = canvas.PadLeft(text, c.width)
		}
		a.Put(x, 0, canvas.Cut(text, c.width), st)
		if c.by != unsorted {
			m.onPress(a.Sub(x, 0, c.width+1, 1), func(m *Model, _, _ int) tea.Cmd { sort(m, c.by); return nil })
		}
		x += c.width + 1
	}
}
