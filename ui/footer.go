package ui

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// maxMessageRows limits the rows of a message at the bottom of the screen. If a message has several rows, it covers the
// last rows of the page.
const maxMessageRows = 4

// drawFooter draws the last rows of the screen. They show the selection or the message of the last key, and the keys
// that can be pressed.
func drawFooter(m *Model, a canvas.Area, t *style.Theme) {
	r := &m.Regions
	row := a.Row(r.Footer)
	if m.prompt != nil {
		m.prompt.draw(row, t)
		return
	}
	keysW := drawKeys(m, row, t, r.Detail != r.Footer)
	left := row.Sub(0, 0, row.W-keysW-1, 1)
	if r.Detail != r.Footer {
		left = a.Row(r.Detail)
	}
	if m.message.Text != "" {
		st := canvas.Style{FG: t.Good, Attr: canvas.Bold}
		switch {
		case m.message.Problem:
			st.FG = t.Crit
		case m.message.Hint:
			st = t.Plain()
		}
		text := m.Showable(m.message.Text, m.message.Paths...)
		lines := []string{canvas.CutLeft(text, a.W-2)}
		if m.message.Problem && len(m.message.Paths) == 0 { // a problem and its remedy are shown in full
			lines, _ = style.Wrap(text, a.W-2, maxMessageRows)
		}
		for i, s := range lines {
			full := a.Row(r.Detail - len(lines) + 1 + i)
			full.Fill(' ', canvas.Style{})
			full.Put(1, 0, s, st)
		}
		return
	}
	drawDetail(m, left, t)
}

// drawKeys draws the keys that are useful now, in their order, and returns the number of columns they take. It leaves
// out keys that do not fit, but never keys that open another view (Binding.Always). If ownRow is true, the keys have
// the row for themselves and begin on the left. Otherwise they take at most the right half of the row.
func drawKeys(m *Model, a canvas.Area, t *style.Theme, ownRow bool) int {
	type hint struct {
		key, word string
		b         scene.Binding
	}
	var hints []hint
	for _, k := range scene.OfFirst(m.maps()) {
		for _, b := range k.Bindings {
			if b.Short != "" && (b.When == nil || b.When(m)) {
				hints = append(hints, hint{cmp.Or(b.Footer, b.Show), b.Short, b})
			}
		}
	}
	limit := a.W - 2
	if !ownRow {
		limit = a.W / 2
	}
	width := func(h hint) int { return canvas.Width(h.key) + 1 + canvas.Width(h.word) + 2 }
	w := 0
	for _, h := range hints {
		if h.b.Always {
			w += width(h)
		}
	}
	full := false
	hints = slices.DeleteFunc(hints, func(h hint) bool {
		if h.b.Always {
			return false
		}
		if full = full || w+width(h) > limit; !full {
			w += width(h)
		}
		return full
	})
	x := 1
	if !ownRow {
		x = a.W - w
	}
	for _, h := range hints {
		from := x
		x = a.Put(x, 0, h.key, t.Bold())
		x = a.Put(x+1, 0, h.word, t.Dimmed())
		m.OnPress(a.Sub(from, 0, x-from, 1), func(on scene.Host, _, _ int) tea.Cmd { return h.b.Do(on) })
		x += 2
	}
	return w
}

// hintsApart is the blank between two hints in a row. drawDetail drops the last hints if the row is too narrow.
const hintsApart = "   "

// drawNames draws the names of the other views at the right end of a row, and returns the column at which they begin.
// Only the live view needs drawNames. All other views have a line with these names at their top.
func drawNames(m *Model, a canvas.Area) int {
	others := slices.DeleteFunc(tabs(m.Offers), func(v page.View) bool { return v.ID == m.Page })
	begin := a.W
	for _, v := range others {
		begin -= canvas.Width(v.Key+string(v.ID)) + 2
	}
	x := begin
	for _, v := range others {
		from := x
		x = a.Put(x, 0, v.Key, m.Theme.Bold())
		x = a.Put(x+1, 0, string(v.ID), m.Theme.Dimmed())
		m.OnPress(a.Sub(from, 0, x-from, 1), func(h scene.Host, _, _ int) tea.Cmd { return h.Open(v.ID) })
		x++
	}
	return begin
}

// drawDetail describes what the user has selected in the view. If nothing is selected, it says what can be selected.
// The live view has two differences. If nothing is selected and the timeline has no row for the legend, drawDetail
// draws the legend. If the view is wide, drawDetail also draws the names of the other views.
func drawDetail(m *Model, a canvas.Area, t *style.Theme) {
	name, rest := m.current().Detail(&m.Scene)
	if name == "" && m.Page == scene.PageLive && m.Regions.Legend == 0 && m.Regions.Detail != m.Regions.Footer {
		style.DrawLegend(a, t, m.Opt.ASCII)
		return
	}
	if name == "" {
		room := a.W - 2
		if m.Page == scene.PageLive && a.W >= namesBeforeCaption {
			for room = drawNames(m, a) - 4; canvas.Width(rest) > room && strings.Contains(rest, hintsApart); {
				rest = rest[:strings.LastIndex(rest, hintsApart)]
			}
		}
		a.Put(1, 0, canvas.Cut(rest, room), t.Dimmed())
		return
	}
	name = canvas.Cut(name, max(a.W/2, a.W-4-canvas.Width(rest)))
	x := a.Put(1, 0, name, t.Bold())
	a.Put(x+2, 0, canvas.Cut(rest, a.W-x-2), t.Dimmed())
}
