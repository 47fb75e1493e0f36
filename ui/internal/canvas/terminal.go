package canvas

import (
	"image/color"
	"strconv"
)

// Terminal remembers what a terminal shows, and returns the bytes that change it to a new picture. It replaces Bubble
// Tea's renderer. That renderer parses each picture's text, styles and widths from a string, which took three quarters
// of the CPU time of drawing.
type Terminal struct {
	w, h  int
	cells []Cell // what the terminal shows now, in the form that Cell.shows returns
	known bool   // true if the terminal is known to show cells
	out   []byte
	sgr   sequences
	pen   Style // the style of the text that was written last into out
	x, y  int   // the place of the cursor after the bytes in out; y is -1 if the place is not known
}

// SetColors sets the function that converts each colour to one that the terminal can show. nil means that no conversion
// is needed.
func (t *Terminal) SetColors(convert func(color.Color) color.Color) {
	t.sgr, t.known = sequences{convert: convert}, false
}

// Forget makes the next Update write every row. It must be called if another program may have written to the terminal.
func (t *Terminal) Forget() { t.known = false }

// shortGap decides how Update gets over unchanged cells between two changed ones. If there are at most shortGap
// unchanged cells, Update writes them again, because moving the cursor over them would take as many bytes.
const shortGap = 3

// leastErased decides how Update writes blank cells at the end of a row. If there are at least leastErased blank cells,
// Update erases the end of the row. Otherwise it writes the cells as blanks.
const leastErased = 4

// Update returns the bytes that make a terminal in raw mode show the grid. If the terminal already shows the grid,
// there are no bytes. The bytes are valid until the next call. Before and after them, the terminal has its own style,
// and the cursor can be anywhere.
//
// Update erases a cell only if the cell must have the terminal's own style. Some terminals always erase to their own
// style (no bce in terminfo, as in GNU screen's default). On these, erasing cannot set a background colour.
func (t *Terminal) Update(g *Grid) []byte {
	t.out, t.pen = t.out[:0], Style{}
	if t.w != g.W || t.h != g.H || len(t.cells) != len(g.cells) {
		t.w, t.h, t.known = g.W, g.H, false
		t.cells = make([]Cell, len(g.cells))
	}
	t.x, t.y = -1, -1
	for y := range g.H {
		t.row(g.cells[y*g.W:(y+1)*g.W], t.cells[y*g.W:(y+1)*g.W], y)
	}
	t.known = true
	t.turn(Style{})
	return t.out
}

// row writes the cells of a row that have changed. The parameter old has the cells that the terminal shows in this row
// now.
func (t *Terminal) row(row, old []Cell, y int) {
	end := len(row) // the row is blank from this index on
	for end > 0 && row[end-1].shows() == (Cell{Rune: ' '}) {
		end--
	}
	for x := 0; x < len(row); {
		if t.known && row[x].shows() == old[x] {
			x++
			continue
		}
		for x > 0 && row[x].Rune == 0 { // a wide character is written whole
			x--
		}
		t.goTo(x, y)
		if x >= end && len(row)-x >= leastErased {
			t.turn(Style{})
			t.out = append(t.out, "\x1b[K"...)
			for ; x < len(row); x++ {
				old[x] = row[x].shows()
			}
			return
		}
		for to := t.changed(row, old, x, end); x < to; x++ {
			c := row[x].shows()
			if old[x] = c; c.Rune != 0 {
				if !c.blankIn(t.pen) {
					t.turn(c.Style)
				}
				t.out = append(appendRune(t.out, c.Rune), c.Marks...)
			}
		}
		if t.x = x; x == len(row) { // after a write to the last column, terminals differ in where the cursor is
			t.y = -1
		}
	}
}

// changed returns the end of a run of cells that are written together. The run begins with the cell at the index from.
// The row is blank from the index end on. If Update will erase this blank part instead of writing it, the run ends at
// its beginning.
func (t *Terminal) changed(row, old []Cell, from, end int) int {
	if end == from || len(row)-end < leastErased {
		end = len(row)
	}
	to, gap := from+1, 0
	for x := from + 1; x < end; x++ {
		c := row[x].shows()
		if !t.known || c != old[x] || c.Rune == 0 {
			to, gap = x+1, 0
			continue
		}
		last := row[to-1].Style
		if gap++; gap > shortGap || c.Rune >= 0x80 || c.Marks != "" || c.Style != last && !c.blankIn(last) {
			break
		}
	}
	return to
}

// goTo moves the cursor to a cell. It chooses the movement that takes the fewest bytes.
func (t *Terminal) goTo(x, y int) {
	switch {
	case t.y == y && t.x == x:
	case t.y == y && x > t.x:
		t.csi(x-t.x, 'C')
	case t.y >= 0 && t.y+1 == y && x == 0:
		t.out = append(t.out, '\r', '\n')
	case x == 0:
		t.csi(y+1, 'H')
	default:
		t.out = append(t.out, "\x1b["...)
		t.out = strconv.AppendInt(t.out, int64(y+1), 10)
		t.out = append(t.out, ';')
		t.out = strconv.AppendInt(t.out, int64(x+1), 10)
		t.out = append(t.out, 'H')
	}
	t.x, t.y = x, y
}

// csi writes a control sequence (ESC [) with a number. It leaves out the number 1, because it is the default.
func (t *Terminal) csi(n int, final byte) {
	t.out = append(t.out, "\x1b["...)
	if n != 1 {
		t.out = strconv.AppendInt(t.out, int64(n), 10)
	}
	t.out = append(t.out, final)
}

// turn changes the terminal's style to st, in which the next text is written.
func (t *Terminal) turn(st Style) {
	switch {
	case st == t.pen:
		return
	case st == (Style{}):
		t.out = append(t.out, "\x1b[m"...)
	default:
		t.out = t.sgr.appendSGR(t.out, t.pen, st)
	}
	t.pen = st
}

// blankIn reports whether the cell is a blank, and would look the same in the style st. The colour of the text does not
// matter, because a blank shows none.
func (c *Cell) blankIn(st Style) bool {
	return c.Rune == ' ' && c.Marks == "" && c.Style == Style{BG: st.BG} && st.Attr&(Underline|Reverse) == 0
}

// shows returns the cell with only what can be seen. For example, a blank does not show the colour of its text, so
// shows removes this colour.
func (c *Cell) shows() Cell {
	if c.Rune != ' ' || c.Marks != "" || c.Style.Attr&(Underline|Reverse) != 0 {
		return *c
	}
	return Cell{Rune: ' ', Style: Style{BG: c.Style.BG}}
}
