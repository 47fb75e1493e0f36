package widget

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
)

// Column describes a column of a table. To add a column to a table, it is enough to add a Column to the table's
// Columns.
type Column[R any] struct {
	Title string // the head of the column
	Short string // shown if Title has no room; if it is empty, Title is cut
	// Width returns the width of the column on a screen of a given width. Zero means that this screen does not show the
	// column. The value Rest means that the column gets the width that other columns leave free.
	Width func(screen int) int
	// Widens reports whether the column becomes wider than Width: it then also gets a part of the width that other
	// columns leave free. If it is nil, the column never becomes wider.
	Widens func(*scene.Scene) bool
	// Least is the least width of a column whose Width is Rest. If there is less room for this column, other columns
	// are left out: the columns with a number in Drop, the lowest number first. If this is not enough, the column
	// itself is left out.
	Least, Drop int
	Right       bool // the column's text is aligned to the right
	Tail        bool // true if the cells have names of threads, which canvas.CutName shortens
	// Order is the name of the order in which the table is sorted by this column. If Order is empty, the table cannot
	// be sorted by the column. Compare compares two rows for this order. It puts the most important rows first.
	Order   string
	Compare func(x, y R) int
	// Text returns the text and style of a cell. If Draw is set, Draw draws the cell instead.
	Text func(r R, sc *scene.Scene) (string, canvas.Style)
	Draw func(a canvas.Area, r R, sc *scene.Scene)
	// Spans reports whether the cell of a row also covers all columns to its right. If Spans is nil, no cell of the
	// column does this.
	Spans func(r R) bool
	// Bare is true if the background colour of a cell has a meaning. The cell then keeps this colour in a selected row.
	Bare bool
}

// Rest is a value for a column's width. It means that the column gets the width that other columns leave free. If
// several columns have the width Rest, they share the free width.
const Rest = -1

// Wide returns a function for Column.Width. On the narrowest screens, the column has the given width. The parameter
// from has pairs of numbers for wider screens. The first number of a pair is the least width of a screen, and the
// second is the column's width on such screens.
func Wide(width int, from ...int) func(int) int {
	return func(screen int) int {
		w := width
		for i := 0; i+1 < len(from) && screen >= from[i]; i += 2 {
			w = from[i+1]
		}
		return w
	}
}

// Table is a list with columns. It is sorted by one of the columns.
type Table[R keyed[K], K comparable] struct {
	List[R, K]
	Columns []Column[R]
	// Left and Right are how many columns of the screen stay free at the left and the right edge of the table.
	Left, Right int
	// Natural compares rows while the table is not sorted by a column. Unsorted is the name of this order. If Unsorted
	// is empty, the table is always sorted by a column.
	Natural  func(x, y R) int
	Unsorted string
	By       string // name of the current order
	Reverse  bool
}

// Orders returns the names of all orders in which the table can be sorted.
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

// Sort sorts rows in the chosen order. Rows that are equal in this order stay in the order that they had before.
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

// Sorted says in words how the table is sorted now. The parameter first is the order that the table has at the start.
// If the table still has this order, the result is "".
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

// sortBy sorts the table in an order. If the table already has this order, sortBy reverses it.
func (t *Table[R, K]) sortBy(order string) {
	t.Reverse = t.By == order && !t.Reverse
	t.By = order
}

// sortNext changes to the next sort order (+1) or the previous one (-1).
func (t *Table[R, K]) sortNext(n int) {
	all := t.Orders()
	t.By = all[(slices.Index(all, t.By)+n+len(all))%len(all)]
}

func (t *Table[R, K]) turnRound() { t.Reverse = !t.Reverse }

// Sorter is a table that the user can sort with keys.
type Sorter interface {
	sortNext(n int)
	turnRound()
}

// SortKeys returns the keys that sort a table. The parameter of is a function that returns this table. help is the text
// about the keys in the help.
func SortKeys(help string, of func() Sorter) []scene.Binding {
	return []scene.Binding{
		{Keys: []string{">", "shift+."}, Show: "< >", Short: "sort", Help: help,
			Do: func(h scene.Host) tea.Cmd { of().sortNext(+1); h.Refresh(); return nil }},
		{Keys: []string{"<", "shift+,"}, Do: func(h scene.Host) tea.Cmd { of().sortNext(-1); h.Refresh(); return nil }},
		{Keys: []string{"r"}, Show: "r", Short: "reverse", Help: "sort the other way round",
			Do: func(h scene.Host) tea.Cmd { of().turnRound(); h.Refresh(); return nil }},
	}
}

// Fit returns how wide each column is on a screen of a given width. A column for which there is no room gets the width
// 0.
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

// DrawHead writes the names of the columns, and marks the one by which the table is sorted. A click on a name sorts the
// table by this column.
func (t *Table[R, K]) DrawHead(a canvas.Area, sc *scene.Scene) { t.drawHead(a, sc, 0) }

// drawHead draws the head of the table. It leaves the last columns of the screen free, because the number of hidden
// rows is written there. taken is how many columns these are.
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

// DrawRows draws as many rows as fit. If another list receives the arrow keys (focused is false), this table's cursor
// is faint.
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
