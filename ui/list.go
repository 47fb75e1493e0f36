package ui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// keyed is a row of a list. What names it stays the same from picture to picture, so that the cursor stays on its row when
// others come, go or change places.
type keyed[K comparable] interface{ id() K }

// list is rows of which one has the cursor and some are on the screen.
type list[R keyed[K], K comparable] struct {
	rows []R
	// cursor names the row that it is on, which may be another's to hold, and several lists may share it. No row has it when there is
	// none of that name: at first, and while the row that had it is not listed.
	cursor *K
	at     int // where that row was last: the keys go on from there
	top    int // first row on the screen
	height int // rows that the screen has room for
}

// index is the row with the cursor; -1: none has it.
func (l *list[R, K]) index() int {
	return slices.IndexFunc(l.rows, func(r R) bool { return r.id() == *l.cursor })
}

// step is how far a key moves the cursor.
type step struct{ rows, screens int }

// move moves the cursor, to the edge at most. The first step from no row at all is to the first or the last one.
func (l *list[R, K]) move(by step) {
	if len(l.rows) == 0 {
		return
	}
	n := by.rows + by.screens*max(l.height-1, 1)
	var none K
	i := l.index()
	switch {
	case i >= 0:
	case *l.cursor != none && n > 0: // what has its place now is below it
		i = l.at - 1
	case *l.cursor != none:
		i = l.at
	case n < 0:
		i = len(l.rows)
	}
	l.at = max(0, min(i+n, len(l.rows)-1))
	*l.cursor = l.rows[l.at].id()
}

// settle puts the cursor on a row when none has it: on the one that has the place of the row that had it.
func (l *list[R, K]) settle() {
	if len(l.rows) > 0 && l.index() < 0 {
		l.at = min(l.at, len(l.rows)-1)
		*l.cursor = l.rows[l.at].id()
	}
}

// reset takes the cursor away and goes back to the first row.
func (l *list[R, K]) reset() {
	var none K
	*l.cursor, l.at, l.top = none, 0, 0
}

// scroll makes the list as high as the screen has room, with the cursor in sight, and returns the rows that are on the screen.
func (l *list[R, K]) scroll(height int) []R {
	l.height = height
	if i := l.index(); i >= 0 {
		l.at = i
		l.top = max(min(l.top, i), i-height+1)
	}
	l.top = max(0, min(l.top, len(l.rows)-height))
	return l.rows[l.top:min(l.top+height, len(l.rows))]
}

// hidden says how many rows are above and below those on the screen; "" when there are none.
func (l *list[R, K]) hidden() string {
	s := ""
	if l.top > 0 {
		s += fmt.Sprintf(" ▲%d", l.top)
	}
	if below := len(l.rows) - l.top - l.height; below > 0 {
		s += fmt.Sprintf(" ▼%d", below)
	}
	if s != "" {
		s += " "
	}
	return s
}

// draw draws the rows that there is room for, and makes clicks on them move the cursor; pressed is told of that, and of the column
// of the row that was clicked.
func (l *list[R, K]) draw(a canvas.Area, sc *scene, drawRow func(a canvas.Area, r R, selected bool),
	pressed func(h Host, r R, x int) tea.Cmd) {
	for y, r := range l.scroll(a.H) {
		drawRow(a.Row(y), r, r.id() == *l.cursor)
		sc.onPress(a.Row(y), func(h Host, x, _ int) tea.Cmd {
			*l.cursor = r.id()
			return pressed(h, r, x)
		})
	}
}

// markRow shows that the cursor is on a row; focused: the arrow keys move it.
func markRow(a canvas.Area, sc *scene, focused bool) {
	t := &sc.Theme
	t.Highlight(a, focused)
	a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
}

// cursorKeys are the keys that move a cursor through rows, for every list the same; short and help are the words of the footer and
// of the help.
func cursorKeys(short, help string, move func(h Host, by step) tea.Cmd) []binding {
	do := func(rows, screens int) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd { return move(h, step{rows, screens}) }
	}
	return []binding{
		{keys: []string{"up", "k"}, show: "↑ ↓", short: short, help: help + " (k, j; page keys, home, end)", do: do(-1, 0)},
		{keys: []string{"down", "j"}, do: do(+1, 0)},
		{keys: []string{"pgup"}, do: do(0, -1)},
		{keys: []string{"pgdown"}, do: do(0, +1)},
		{keys: []string{"home", "g"}, do: do(-maxRows, 0)},
		{keys: []string{"end", "G", "shift+g"}, do: do(maxRows, 0)},
	}
}
