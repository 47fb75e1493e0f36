package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// column is all there is to a column of a table: to add one is to add an entry.
type column[R any] struct {
	title string // over it
	short string // over it where title has no room; "": title is cut
	// width is how wide it is on a screen of so many columns: 0 where there is no room for it, rest for what the others leave.
	width func(screen int) int
	// widens, if set, says whether it takes a part of what the others leave besides its width.
	widens func(*scene) bool
	// least is what a column that takes the rest needs to be of use. Those with a number in drop go for it, the lowest
	// first; if that is not enough, it goes itself.
	least, drop int
	right       bool // it ends at its right edge
	// order names the order by this column; "": the table can't be sorted by it. compare is that order, what stands out first.
	order   string
	compare func(x, y R) int
	// text is what is in it, and how; draw draws it instead, where a text won't do.
	text func(r R, sc *scene) (string, canvas.Style)
	draw func(a canvas.Area, r R, sc *scene)
	// spans, if set, says of which rows it has the columns behind it as well.
	spans func(r R) bool
	// bare: the ground of the selected row is not put under it, because its own ground tells something.
	bare bool
}

// rest is the width of a column that takes what the others leave. Several share it.
const rest = -1

// wide is a width on screens of any size; then come pairs of a size from which on there is another one, and that.
func wide(width int, from ...int) func(int) int {
	return func(screen int) int {
		w := width
		for i := 0; i+1 < len(from) && screen >= from[i]; i += 2 {
			w = from[i+1]
		}
		return w
	}
}

// table is a list with columns, sorted by one of them.
type table[R keyed[K], K comparable] struct {
	list[R, K]
	columns []column[R]
	// left and right are the columns of the screen that stay free at the edges.
	left, right int
	// natural is the order while the table is sorted by no column, and unsorted its name; "": it is always sorted by one.
	natural  func(x, y R) int
	unsorted string
	by       string // the order
	reverse  bool
}

// orders are the names of the orders that there are.
func (t *table[R, K]) orders() []string {
	var out []string
	if t.unsorted != "" {
		out = append(out, t.unsorted)
	}
	for i := range t.columns {
		if s := t.columns[i].order; s != "" {
			out = append(out, s)
		}
	}
	return out
}

// sort sorts rows of the table by the order chosen. Those that it does not tell apart stay as they came.
func (t *table[R, K]) sort(rows []R) {
	compare := t.natural
	if i := slices.IndexFunc(t.columns, func(c column[R]) bool { return c.order != "" && c.order == t.by }); i >= 0 {
		compare = t.columns[i].compare
	}
	slices.SortStableFunc(rows, func(x, y R) int {
		if t.reverse {
			return -compare(x, y)
		}
		return compare(x, y)
	})
}

// sortBy chooses an order; the one that it is already turns round.
func (t *table[R, K]) sortBy(order string) {
	t.reverse = t.by == order && !t.reverse
	t.by = order
}

// sortNext goes on to the next order, or with -1 back to the one before.
func (t *table[R, K]) sortNext(n int) {
	all := t.orders()
	t.by = all[(slices.Index(all, t.by)+n+len(all))%len(all)]
}

func (t *table[R, K]) turnRound() { t.reverse = !t.reverse }

// sorter is a table whose order keys change.
type sorter interface {
	sortNext(n int)
	turnRound()
}

// sortKeys are the keys that sort the table which of returns; help says by what.
func sortKeys(help string, of func() sorter) []binding {
	return []binding{
		{keys: []string{">", "shift+."}, show: "< >", short: "sort", help: help,
			do: func(h Host) tea.Cmd { of().sortNext(+1); h.Refresh(); return nil }},
		{keys: []string{"<", "shift+,"}, do: func(h Host) tea.Cmd { of().sortNext(-1); h.Refresh(); return nil }},
		{keys: []string{"r"}, show: "r", short: "reverse", help: "sort the other way round",
			do: func(h Host) tea.Cmd { of().turnRound(); h.Refresh(); return nil }},
	}
}

// fit shares the columns of a screen out. A column that there is no room for has 0.
func (t *table[R, K]) fit(screen int, sc *scene) []int {
	widths := make([]int, len(t.columns))
	free := screen - t.left - t.right + 1
	var takers []int
	least := 0
	for i := range t.columns {
		c := &t.columns[i]
		switch w := c.width(screen); {
		case w == rest:
			takers = append(takers, i)
			least += c.least
			free--
		case w > 0:
			widths[i] = w
			free -= w + 1
			if c.widens != nil && c.widens(sc) {
				takers = append(takers, i)
			}
		}
	}
	for free < least {
		first := -1
		for i := range t.columns {
			if c := &t.columns[i]; c.drop > 0 && widths[i] > 0 && (first < 0 || c.drop < t.columns[first].drop) {
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

// draw draws the table with its head.
func (t *table[R, K]) draw(a canvas.Area, sc *scene, focused bool, pressed func(h Host, r R, x int) tea.Cmd) {
	t.drawHead(a.Row(0), sc)
	t.drawRows(a.Sub(0, 1, a.W, a.H-1), sc, focused, pressed)
	a.PutRight(0, t.hidden(), canvas.Style{FG: sc.Theme.Warn, Attr: canvas.Bold})
}

// drawHead writes the names of the columns, marks the one that the table is sorted by, and makes clicks sort it.
func (t *table[R, K]) drawHead(a canvas.Area, sc *scene) {
	x := t.left
	for i, w := range t.fit(a.W, sc) {
		if w == 0 {
			continue
		}
		c := &t.columns[i]
		text, st := c.title, sc.Theme.Dimmed()
		if c.short != "" && w < canvas.Width(text) {
			text = c.short
		}
		if c.order != "" && c.order == t.by {
			st = canvas.Style{FG: sc.Theme.Accent, Attr: canvas.Bold}
			text += "▼"
		}
		if c.right {
			text = canvas.PadLeft(text, w)
		}
		a.Put(x, 0, canvas.Cut(text, w), st)
		if c.order != "" {
			sc.onPress(a.Sub(x, 0, w+1, 1), func(h Host, _, _ int) tea.Cmd { t.sortBy(c.order); h.Refresh(); return nil })
		}
		x += w + 1
	}
}

// drawRows draws the rows that there is room for. The cursor is faint without the focus, while the arrows move another.
func (t *table[R, K]) drawRows(a canvas.Area, sc *scene, focused bool, pressed func(h Host, r R, x int) tea.Cmd) {
	widths := t.fit(a.W, sc)
	cells := func(a canvas.Area, r R, bare bool) {
		x := t.left
		for i, w := range widths {
			c := &t.columns[i]
			if w == 0 {
				continue
			}
			spans := c.spans != nil && c.spans(r)
			if spans {
				w = a.W - t.right - x
			}
			if c.bare == bare {
				c.put(a.Sub(x, 0, w, 1), r, sc)
			}
			if spans {
				break
			}
			x += w + 1
		}
	}
	t.list.draw(a, sc, func(a canvas.Area, r R, selected bool) {
		cells(a, r, false)
		if selected {
			markRow(a, sc, focused)
		}
		cells(a, r, true)
	}, pressed)
}

// put draws the cell of a row.
func (c *column[R]) put(a canvas.Area, r R, sc *scene) {
	if c.draw != nil {
		c.draw(a, r, sc)
		return
	}
	text, st := c.text(r, sc)
	if text = canvas.Cut(text, a.W); c.right {
		text = canvas.PadLeft(text, a.W)
	}
	a.Put(0, 0, text, st)
}
