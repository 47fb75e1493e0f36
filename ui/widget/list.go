package widget

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
)

// keyed is a row of a list that has an ID. The ID is the same in each picture. It keeps the cursor on its row when
// other rows come, go or move.
type keyed[K comparable] interface{ ID() K }

// List is a list of rows on the screen, with a cursor on one of the rows. If there are more rows than fit on the
// screen, it scrolls.
type List[R keyed[K], K comparable] struct {
	Rows []R
	// Cursor is the key of the selected row. It is a pointer, because several lists may share it. If no row has this
	// key, as at the start, no row is selected.
	Cursor *K
	At     int // the last index of the selected row; if this row disappears, the keys move the cursor from here
	Top    int // first row on the screen
	Height int // rows that the screen has room for
}

// Index returns the index of the row with the cursor. It returns -1 if no row has the cursor.
func (l *List[R, K]) Index() int {
	return slices.IndexFunc(l.Rows, func(r R) bool { return r.ID() == *l.Cursor })
}

// Step is how far a key moves the cursor: a number of rows, or a number of screens.
type Step struct{ Rows, Screens int }

// Move moves the cursor within the list. If no row was ever selected, it selects the first or the last row.
func (l *List[R, K]) Move(by Step) {
	if len(l.Rows) == 0 {
		return
	}
	n := by.Rows + by.Screens*max(l.Height-1, 1)
	var none K
	i := l.Index()
	switch {
	case i >= 0:
	case *l.Cursor != none && n > 0: // the row was removed, so the next row now has its index
		i = l.At - 1
	case *l.Cursor != none:
		i = l.At
	case n < 0:
		i = len(l.Rows)
	}
	l.At = max(0, min(i+n, len(l.Rows)-1))
	*l.Cursor = l.Rows[l.At].ID()
}

// Settle makes sure that a row has the cursor. If the row of the cursor has disappeared, Settle selects the row that is
// now at the same index.
func (l *List[R, K]) Settle() {
	if len(l.Rows) > 0 && l.Index() < 0 {
		l.At = min(l.At, len(l.Rows)-1)
		*l.Cursor = l.Rows[l.At].ID()
	}
}

// Reset removes the cursor and scrolls to the first row.
func (l *List[R, K]) Reset() {
	var none K
	*l.Cursor, l.At, l.Top = none, 0, 0
}

// Scroll sets how many rows of the list fit on the screen. It scrolls the list so that the cursor is visible, and
// returns the visible rows.
func (l *List[R, K]) Scroll(height int) []R {
	l.Height = height
	if i := l.Index(); i >= 0 {
		l.At = i
		l.Top = max(min(l.Top, i), i-height+1)
	}
	l.Top = max(0, min(l.Top, len(l.Rows)-height))
	return l.Rows[l.Top:min(l.Top+height, len(l.Rows))]
}

// Hidden returns a text that says how many rows are above and below the visible ones. It is empty if all rows are
// visible.
func (l *List[R, K]) Hidden() string { return hiddenText(l.Top, len(l.Rows)-l.Top-l.Height) }

// hiddenText returns a text that says how many rows are above and below the visible ones. It is empty if both numbers
// are zero.
func hiddenText(above, below int) string {
	s := ""
	if above > 0 {
		s += fmt.Sprintf(" ▲%d", above)
	}
	if below > 0 {
		s += fmt.Sprintf(" ▼%d", below)
	}
	if s != "" {
		s += " "
	}
	return s
}

// Draw draws the visible rows. A click on a row moves the cursor to this row, and then calls pressed with the clicked
// column.
func (l *List[R, K]) Draw(a canvas.Area, sc *scene.Scene, drawRow func(a canvas.Area, r R, selected bool),
	pressed func(h scene.Host, r R, x int) tea.Cmd) {
	for y, r := range l.Scroll(a.H) {
		drawRow(a.Row(y), r, r.ID() == *l.Cursor)
		sc.OnPress(a.Row(y), func(h scene.Host, x, _ int) tea.Cmd {
			*l.Cursor = r.ID()
			return pressed(h, r, x)
		})
	}
}

// MarkRow marks a row as the row with the cursor. focused is true if the arrow keys move this cursor now.
func MarkRow(a canvas.Area, sc *scene.Scene, focused bool) {
	t := &sc.Theme
	t.Highlight(a, focused)
	a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
}

// CursorKeys returns the keys that move a cursor from row to row. They are the same for all lists. short is the text
// about these keys in the footer, and help is the text in the help.
func CursorKeys(short, help string, move func(h scene.Host, by Step) tea.Cmd) []scene.Binding {
	do := func(rows, screens int) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { return move(h, Step{rows, screens}) }
	}
	return []scene.Binding{
		{Keys: []string{"up", "k"}, Show: "↑ ↓", Short: short, Help: help + " (k, j; page keys, home, end)", Do: do(-1, 0)},
		{Keys: []string{"down", "j"}, Do: do(+1, 0)},
		{Keys: []string{"pgup"}, Do: do(0, -1)},
		{Keys: []string{"pgdown"}, Do: do(0, +1)},
		{Keys: []string{"home", "g"}, Do: do(-scene.MaxRows, 0)},
		{Keys: []string{"end", "G", "shift+g"}, Do: do(scene.MaxRows, 0)},
	}
}

// GroupSign is the last column of the sign in front of a group's name. A click on this sign opens or closes the group.
const GroupSign = 2
