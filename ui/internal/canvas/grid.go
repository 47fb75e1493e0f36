package canvas

// Cell is one column of one row.
type Cell struct {
	// Rune is the character of the cell. It is zero in the second column of a wide character.
	Rune rune
	// Marks are the combining characters after Rune.
	Marks string
	Style Style
}

// Grid is a rectangle of cells.
type Grid struct {
	W, H  int
	cells []Cell
	out   []byte
	sgr   sequences
}

// Reset makes the grid blank and w×h cells large. It reuses the grid's memory.
func (g *Grid) Reset(w, h int) {
	w, h = max(w, 0), max(h, 0)
	g.W, g.H = w, h
	if cap(g.cells) < w*h {
		g.cells = make([]Cell, w*h)
	}
	g.cells = g.cells[:w*h]
	blank := Cell{Rune: ' '}
	for i := range g.cells {
		g.cells[i] = blank
	}
}

// At returns the cell at column x of row y. If this is outside the grid, At returns a blank cell.
func (g *Grid) At(x, y int) Cell {
	if x < 0 || y < 0 || x >= g.W || y >= g.H {
		return Cell{Rune: ' '}
	}
	return g.cells[y*g.W+x]
}

// Area returns the whole grid as an area to draw in.
func (g *Grid) Area() Area { return Area{g: g, W: g.W, H: g.H} }

// set writes a cell. If this overwrites one half of a wide character, it makes the other half blank.
func (g *Grid) set(x, y int, c Cell) {
	i := y*g.W + x
	if g.cells[i].Rune == 0 && x > 0 {
		g.cells[i-1].Rune, g.cells[i-1].Marks = ' ', ""
	}
	if x+1 < g.W && g.cells[i+1].Rune == 0 {
		g.cells[i+1].Rune = ' '
	}
	g.cells[i] = c
}

// Area is a rectangle of a grid. Drawing outside it has no effect.
type Area struct {
	g          *Grid
	X, Y, W, H int
}

// Sub returns a rectangle inside the area. x and y are relative to the area. The rectangle is cut at the area's edges.
func (a Area) Sub(x, y, w, h int) Area {
	if x < 0 {
		w, x = w+x, 0
	}
	if y < 0 {
		h, y = h+y, 0
	}
	w, h = max(0, min(w, a.W-x)), max(0, min(h, a.H-y))
	return Area{g: a.g, X: a.X + x, Y: a.Y + y, W: w, H: h}
}

// Row returns one row of the area.
func (a Area) Row(y int) Area { return a.Sub(0, y, a.W, 1) }

// Put draws s, beginning at column x, and returns the column after s. If the edge would cut a wide character in half,
// Put draws a space instead.
func (a Area) Put(x, y int, s string, st Style) int {
	if y < 0 || y >= a.H {
		return x + Width(s)
	}
	s = Clean(s)
	last := -1
	for _, r := range s {
		w := RuneWidth(r)
		switch {
		case w == 0:
			if last >= 0 {
				c := &a.g.cells[(a.Y+y)*a.g.W+a.X+last]
				c.Marks += string(r)
			}
			continue
		case x < 0 || x >= a.W:
			last = -1
		case w == 2 && x+1 >= a.W:
			a.g.set(a.X+x, a.Y+y, Cell{Rune: ' ', Style: st})
			last = -1
		default:
			a.g.set(a.X+x, a.Y+y, Cell{Rune: r, Style: st})
			if w == 2 {
				a.g.set(a.X+x+1, a.Y+y, Cell{Rune: ' ', Style: st})
				a.g.cells[(a.Y+y)*a.g.W+a.X+x+1].Rune = 0
			}
			last = x
		}
		x += w
	}
	return x
}

// PutRight draws s so that it ends at the area's right edge. It returns the column where s begins.
func (a Area) PutRight(y int, s string, st Style) int {
	x := a.W - Width(s)
	a.Put(x, y, s, st)
	return x
}

// Rune draws one rune of width 1.
func (a Area) Rune(x, y int, r rune, st Style) {
	if x < 0 || y < 0 || x >= a.W || y >= a.H {
		return
	}
	a.g.set(a.X+x, a.Y+y, Cell{Rune: r, Style: st})
}

// Fill fills the area with one rune.
func (a Area) Fill(r rune, st Style) {
	for y := range a.H {
		for x := range a.W {
			a.Rune(x, y, r, st)
		}
	}
}

// Restyle changes the style of every cell of the area.
func (a Area) Restyle(f func(Style) Style) {
	var from, to Style
	known := false
	a.RestyleRunes(func(_ rune, s Style) Style {
		if !known || s != from { // one call of f is enough for neighbours of the same style
			from, to, known = s, f(s), true
		}
		return to
	})
}

// RestyleRunes is like Restyle, but the new style can also depend on the cell's character.
func (a Area) RestyleRunes(f func(rune, Style) Style) {
	for y := range a.H {
		row := a.g.cells[(a.Y+y)*a.g.W+a.X:]
		for x := range a.W {
			row[x].Style = f(row[x].Rune, row[x].Style)
		}
	}
}

// String returns the grid as lines joined by "\n", with escape sequences (SGR) where the style changes. Every line
// begins and ends in the terminal's own style. If color is false, it leaves out colours and keeps attributes such as
// bold, as NO_COLOR requires.
func (g *Grid) String(color bool) string {
	b := g.out[:0]
	for y := range g.H {
		if y > 0 {
			b = append(b, '\n')
		}
		var cur Style
		row := g.cells[y*g.W : (y+1)*g.W]
		// Blank cells in the terminal's own style need not be sent at the end of a line, because the terminal shows
		// them anyway.
		end := len(row)
		for end > 0 && row[end-1].Rune == ' ' && row[end-1].Style.plain(color) {
			end--
		}
		for _, c := range row[:end] {
			if c.Rune == 0 {
				continue
			}
			st := c.Style
			if !color {
				st.FG, st.BG = 0, 0
			}
			if st != cur {
				b = g.sgr.appendSGR(b, cur, st)
				cur = st
			}
			b = appendRune(b, c.Rune)
			b = append(b, c.Marks...)
		}
		if cur != (Style{}) {
			b = append(b, "\x1b[m"...)
		}
	}
	g.out = b
	return string(b)
}

// Copy makes the grid a copy of another grid. It reuses the memory of g.
func (g *Grid) Copy(from *Grid) {
	g.W, g.H = from.W, from.H
	g.cells = append(g.cells[:0], from.cells...)
}

// Text returns the grid as plain text. A snapshot saves this text as screen.txt.
func (g *Grid) Text() string {
	b := make([]byte, 0, g.W*g.H*2)
	for y := range g.H {
		row := g.cells[y*g.W : (y+1)*g.W]
		end := len(row)
		for end > 0 && row[end-1].Rune == ' ' {
			end--
		}
		for _, c := range row[:end] {
			if c.Rune != 0 {
				b = append(appendRune(b, c.Rune), c.Marks...)
			}
		}
		b = append(b, '\n')
	}
	return string(b)
}

func appendRune(b []byte, r rune) []byte {
	if r < 0x80 {
		return append(b, byte(r))
	}
	return append(b, string(r)...)
}
