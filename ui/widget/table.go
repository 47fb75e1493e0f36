package widget

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
)

// Column describes a column of a table completely. To add a column is to add an entry.
type Column[R any] struct {
	Title string // over it
	Short string // shown if title has no room; if empty, title is cut
	// Width returns the width of a column on a screen with a number of columns. It returns 0 if there is no room, and
	// Rest if the column takes what the others leave.
	Width func(screen int) int
	// Widens, if set, says whether it takes a part of what the others leave besides its width.
	Widens func(*scene.Scene) bool
	// Least is the width that a column that takes the rest needs at least. If it has less, columns with a number in
	// Drop are dropped, the lowest number first. If this is not enough, the column itself is dropped.
	Least, Drop int
	Right       bool // it ends at its right edge
	Tail        bool // true for names of threads, which canvas.CutName cuts
	// Order is the name of the order by this column. If it is empty, the table cannot be sorted by it. Compare is this
	// order. It puts the rows first that matter most.
	Order   string
	Compare func(x, y R) int
	// Text is what is in it, and how; draw draws it instead, where a text won't do.
	Text func(r R, sc *scene.Scene) (string, canvas.Style)
	Draw func(a canvas.Area, r R, sc *scene.Scene)
	// Spans, if set, says of which rows it has the columns behind it as well.
	Spans func(r R) bool
	// Bare keeps the ground of a selected row from this column, because its own ground has a meaning.
	Bare bool
}

// Rest is the width of a column that takes what the others leave. Several columns share it.
const Rest = -1

// Wide is a width on screens of any size; then come pairs of a size from which on there is another one, and that.
func Wide(width int, from ...int) func(int) int {
	return func(screen int) int {
		w := width
		for i := 0; i+1 < len(from) && screen >= from[i]; i += 2 {
			w = from[i+1]
		}
		return w
	}
}

// Table is a list with columns, sorted by one of them.
type Table[R keyed[K], K comparable] struct {
	List[R, K]
	Columns []Column[R]
	// Left and right are the columns of the screen that stay free at the edges.
	Left, Right int
	// Natural is the order while the table is sorted by no column, and Unsorted is the name of this order. If Unsorted
	// is empty, the table is always sorted by a column.
	Natural  func(x, y R) int
	Unsorted string
	By       string // the order
	Reverse  bool
}

// Orders are the names of the orders that there are.
func (t *Table[R, K]) Orders() []string {
	var out []string
	if t.Unsorted != "" {
		out = append(out, t.Unsorted)
	}
	for i := range t.Columns {
		if s := t.Columns[i].Order; s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Sort sorts rows of the table by the order chosen. Those that it does not tell apart stay as they came.
func (t *Table[R, K]) Sort(rows []R) {
	compare := t.Natural
	if i := slices.IndexFunc(t.Columns, func(c Column[R]) bool { return c.Order != "" && c.Order == t.By }); i >= 0 {
		compare = t.Columns[i].Compare
	}
	sorting.StableBy(rows, func(x, y R) int {
		if t.Reverse {
			return -compare(x, y)
		}
		return compare(x, y)
	})
}

// Sorted says by what the rows are sorted. It is empty for the order that the table has at first.
func (t *Table[R, K]) Sorted(first string) string {
	switch {
	case t.By != first && t.Reverse:
		return "by " + t.By + " reversed"
	case t.By != first:
		return "by " + t.By
	case t.Reverse:
		return "reversed"
	}
	return ""
}

// sortBy chooses an order; the one that it is already turns round.
func (t *Table[R, K]) sortBy(order string) {
	t.Reverse = t.By == order && !t.Reverse
	t.By = order
}

// sortNext goes on to the next order, or with -1 back to the one before.
func (t *Table[R, K]) sortNext(n int) {
	all := t.Orders()
	t.By = all[(slices.Index(all, t.By)+n+len(all))%len(all)]
}

func (t *Table[R, K]) turnRound() { t.Reverse = !t.Reverse }

// Sorter is a table whose order keys change.
type Sorter interface {
	sortNext(n int)
	turnRound()
}

// SortKeys are the keys that sort the table which of returns; help says by what.
func SortKeys(help string, of func() Sorter) []scene.Binding {
	return []scene.Binding{
		{Keys: []string{">", "shift+."}, Show: "< >", Short: "sort", Help: help,
			Do: func(h scene.Host) tea.Cmd { of().sortNext(+1); h.Refresh(); return nil }},
		{Keys: []string{"<", "shift+,"}, Do: func(h scene.Host) tea.Cmd { of().sortNext(-1); h.Refresh(); return nil }},
		{Keys: []string{"r"}, Show: "r", Short: "reverse", Help: "sort the other way round",
			Do: func(h scene.Host) tea.Cmd { of().turnRound(); h.Refresh(); return nil }},
	}
}

// Fit shares the columns of a screen out. A column that there is no room for has 0.
func (t *Table[R, K]) Fit(screen int, sc *scene.Scene) []int {
	widths := make([]int, len(t.Columns))
	free := screen - t.Left - t.Right + 1
	var takers []int
	least := 0
	for i := range t.Columns {
		c := &t.Columns[i]
		switch w := c.Width(screen); {
		case w == Rest:
			takers = append(takers, i)
			least += c.Least
			free--
		case w > 0:
			widths[i] = w
			free -= w + 1
			if c.Widens != nil && c.Widens(sc) {
				takers = append(takers, i)
			}
		}
	}
	for free < least {
		first := -1
		for i := range t.Columns {
			if c := &t.Columns[i]; c.Drop > 0 && widths[i] > 0 && (first < 0 || c.Drop < t.Columns[first].Drop) {
				first = i
			}
		}
		if first < 0 {
			return widths
		}
		free += widths[first] + 1
		widths[first] = 0
	}
	for n, i := range takers {
		w := max(free, 0) / (len(takers) - n)
		widths[i] += w
		free -= w
	}
	return widths
}

// Draw draws the table with its head.
func (t *Table[R, K]) Draw(a canvas.Area, sc *scene.Scene, focused bool, pressed func(h scene.Host, r R, x int) tea.Cmd) {
	t.DrawRows(a.Sub(0, 1, a.W, a.H-1), sc, focused, pressed)
	t.drawHead(a.Row(0), sc, canvas.Width(t.Hidden()))
	a.PutRight(0, t.Hidden(), canvas.Style{FG: sc.Theme.Warn, Attr: canvas.Bold})
}

// DrawHead writes the names of the columns, marks the one that the table is sorted by, and makes clicks sort it.
func (t *Table[R, K]) DrawHead(a canvas.Area, sc *scene.Scene) { t.drawHead(a, sc, 0) }

// drawHead draws the head. The count of hidden rows takes the last columns of it.
func (t *Table[R, K]) drawHead(a canvas.Area, sc *scene.Scene, taken int) {
	x := t.Left
	for i, w := range t.Fit(a.W, sc) {
		if w == 0 {
			continue
		}
		c := &t.Columns[i]
		text, st := c.Title, sc.Theme.Dimmed()
		free := min(w, a.W-taken-x)
		if c.Short != "" && free < canvas.Width(text) {
			text = c.Short
		}
		if c.Order != "" && c.Order == t.By {
			st = canvas.Style{FG: sc.Theme.Accent, Attr: canvas.Bold}
			text += "▼"
		}
		if c.Right {
			text = canvas.PadLeft(text, w)
		}
		a.Put(x, 0, canvas.Cut(text, w), st)
		if c.Order != "" {
			sc.OnPress(a.Sub(x, 0, w+1, 1), func(h scene.Host, _, _ int) tea.Cmd { t.sortBy(c.Order); h.Refresh(); return nil })
		}
		x += w + 1
	}
}

// DrawRows draws the rows that there is room for. The cursor is faint without the focus, while the arrows move another.
func (t *Table[R, K]) DrawRows(a canvas.Area, sc *scene.Scene, focused bool, pressed func(h scene.Host, r R, x int) tea.Cmd) {
	widths := t.Fit(a.W, sc)
	cells := func(a canvas.Area, r R, bare bool) {
		x := t.Left
		for i, w := range widths {
			c := &t.Columns[i]
			if w == 0 {
				continue
			}
			spans := c.Spans != nil && c.Spans(r)
			if spans {
				w = a.W - t.Right - x
			}
			if c.Bare == bare {
				c.put(a.Sub(x, 0, w, 1), r, sc)
			}
			if spans {
				break
			}
			x += w + 1
		}
	}
	t.List.Draw(a, sc, func(a canvas.Area, r R, selected bool) {
		cells(a, r, false)
		if selected {
			MarkRow(a, sc, focused)
		}
		cells(a, r, true)
	}, pressed)
}

// put draws the cell of a row.
func (c *Column[R]) put(a canvas.Area, r R, sc *scene.Scene) {
	if c.Draw != nil {
		c.Draw(a, r, sc)
		return
	}
	text, st := c.Text(r, sc)
	cut := canvas.Cut
	if c.Tail {
		cut = canvas.CutName
	}
	if text = cut(text, a.W); c.Right {
		text = canvas.PadLeft(text, a.W)
	}
	a.Put(0, 0, text, st)
}
