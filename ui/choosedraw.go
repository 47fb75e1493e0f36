package ui

import (
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// These are the widths of the list's columns, with two blanks after each column. On a narrow screen, the last columns
// are left out.
const (
	pidColumn     = 9
	cpuColumn     = 8
	threadsColumn = 9
	ageColumn     = 8
	rubyColumn    = 8
	userColumn    = 11
	// leastCommand is the least width at which the column for the command line is useful.
	leastCommand = 32
)

// draw makes the picture.
func (m *chooser) draw() {
	m.grid.Reset(m.w, m.h)
	m.paint(m.grid.Area())
	fitTerminal(&m.grid, &m.opt, &m.Colors)
	m.drawn++
}

// paint draws the whole list: the typed text, the rows, the details of the row with the cursor, and the keys.
func (m *chooser) paint(a canvas.Area) {
	t := &m.Theme
	if a.W < 20 || a.H < 6 {
		a.Put(0, 0, "too small", t.Plain())
		return
	}
	x := a.Put(1, 0, "ddtop", t.Bold())
	a.Put(x+2, 0, m.Found(), t.Dimmed())
	x = a.Put(1, 1, "> ", canvas.Style{FG: t.Accent, Attr: canvas.Bold})
	if len(m.filter) == 0 {
		a.Put(x, 1, " ", canvas.Style{Attr: canvas.Reverse})
		a.Put(x+1, 1, canvas.Cut("type a part of a name, of the command line or a PID", a.W-x-2), t.Faded())
	} else {
		x = a.Put(x, 1, canvas.CutLeft(string(m.filter), a.W-x-2), t.Bold())
		a.Put(x, 1, " ", canvas.Style{Attr: canvas.Reverse})
	}
	columns := m.columns(a.W)
	x = 1
	for _, c := range columns {
		put(a.Sub(x, 3, c.width, 1), c.title, c.right, t.Dimmed())
		x += c.width
	}
	m.rowsFrom = 4
	detail := min(3, max(1, a.H/8))
	body := a.Sub(0, m.rowsFrom, a.W, max(1, a.H-m.rowsFrom-detail-2))
	for y, r := range m.table.Scroll(body.H) {
		m.drawRow(body.Row(y), r, columns, r.PID == m.cursor)
	}
	if len(m.table.Rows) == 0 {
		text := "no Ruby process of that name: backspace or esc"
		if len(m.all) == 0 {
			text = "no Ruby process is left"
		}
		body.Put(1, 0, canvas.Cut(text, a.W-2), t.Dimmed())
	}
	if hidden := m.table.Hidden(); hidden != "" {
		a.PutRight(3, hidden, t.Dimmed())
	}
	m.drawDetail(a.Sub(0, a.H-1-detail, a.W, detail))
	m.drawKeys(a.Row(a.H - 1))
}

// candidateColumn is a column of the list.
type candidateColumn struct {
	title string
	width int
	right bool
	text  func(r *candidateRow) string
}

// columns returns the columns that fit on a screen of width w.
func (m *chooser) columns(w int) []candidateColumn {
	all := []candidateColumn{
		{"PID", pidColumn, true, func(r *candidateRow) string { return strconv.Itoa(r.PID) }},
		{"CPU", cpuColumn, true, func(r *candidateRow) string { return shareText(r.share) }},
		{"threads", threadsColumn, true, func(r *candidateRow) string { return strconv.Itoa(r.Threads) }},
		{"age", ageColumn, true, func(r *candidateRow) string { return age(r.Started, m.now()) }},
		{"ruby", rubyColumn, false, func(r *candidateRow) string { return releaseText(r) }},
		{"user", userColumn, false, func(r *candidateRow) string { return r.User }},
	}
	left := w - 2
	for i, c := range all {
		if left-c.width < leastCommand {
			all = all[:i]
			break
		}
		left -= c.width
	}
	return append(all, candidateColumn{"command", max(left, 1), false, func(r *candidateRow) string {
		text := r.Title
		if r.Command != "" {
			text = r.Command
		}
		if r.depth > 0 {
			text = strings.Repeat("  ", min(r.depth, 8)-1) + "└ " + text
		}
		return text
	}})
}

// shareText returns a share of one CPU as text. A share of -1 is not known yet.
func shareText(share float64) string {
	if share < 0 {
		return "–"
	}
	return units.RoundPercent(share)
}

// age returns as text how long a process has been running.
func age(started, now time.Time) string {
	if started.IsZero() {
		return "–"
	}
	return units.LongDuration(max(0, now.Sub(started)))
}

func releaseText(r *candidateRow) string {
	if r.Why != "" {
		return "✗"
	}
	return r.Ruby
}

// put draws the text of a cell, and leaves the last two columns of the cell free.
func put(a canvas.Area, text string, right bool, st canvas.Style) {
	text = canvas.Cut(canvas.Clean(text), a.W-2)
	if right {
		a.Put(a.W-2-canvas.Width(text), 0, text, st)
		return
	}
	a.Put(0, 0, text, st)
}

func (m *chooser) drawRow(a canvas.Area, r *candidateRow, columns []candidateColumn, selected bool) {
	t := &m.Theme
	st := t.Plain()
	if r.Why != "" {
		st = t.Dimmed()
	}
	x := 1
	for _, c := range columns {
		cell := st
		if c.title == "ruby" && r.Why != "" {
			cell = canvas.Style{FG: t.Crit}
		}
		put(a.Sub(x, 0, c.width, 1), c.text(r), c.right, cell)
		x += c.width
	}
	if selected {
		t.Highlight(a, true)
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
}

// drawDetail draws the details of the row with the cursor. If the process cannot be read, they say why. Otherwise they
// are the complete command line, if the row shows only a part of it.
func (m *chooser) drawDetail(a canvas.Area) {
	t := &m.Theme
	if m.failed != nil {
		a.Put(1, 0, canvas.Cut(canvas.Clean(m.failed.Error()), a.W-2), canvas.Style{FG: t.Crit})
		return
	}
	i := m.table.Index()
	if i < 0 {
		return
	}
	r, st := m.table.Rows[i], t.Dimmed()
	text := r.Command
	if text == "" {
		text = r.Title
	}
	if r.Why != "" {
		text, st = "✗ "+r.Why, canvas.Style{FG: t.Crit}
	}
	lines, _ := style.Wrap(canvas.Clean(text), a.W-2, a.H)
	for y, line := range lines {
		a.Put(1, y, line, st)
	}
}

func (m *chooser) drawKeys(a canvas.Area) {
	t := &m.Theme
	keys := [][2]string{{"↑ ↓", "move"}, {"enter", m.Verb}}
	if i := m.table.Index(); i >= 0 && m.table.Rows[i].below > 0 {
		n := m.table.Rows[i].below
		keys = append(keys, [2]string{"tab", m.Verb + " with " + units.Plural(n, "process", "processes") + " below (--children)"})
	}
	if len(m.filter) > 0 {
		keys = append(keys, [2]string{"esc", "all"}, [2]string{"ctrl-c", "leave"})
	} else {
		keys = append(keys, [2]string{"q", "leave"})
	}
	x := 1
	for _, k := range keys {
		if x+canvas.Width(k[0])+1+canvas.Width(k[1]) > a.W {
			break
		}
		x = a.Put(x, 0, k[0], t.Bold())
		x = a.Put(x+1, 0, k[1], t.Dimmed()) + 2
	}
}
