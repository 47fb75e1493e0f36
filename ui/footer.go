package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// maxMessageRows is how many rows a message may take, over what is above the last rows.
const maxMessageRows = 4

// drawFooter draws the last rows: what is selected (or what the last key has to say), and the keys.
func drawFooter(m *Model, a canvas.Area, t *style.Theme) {
	r := &m.regions
	row := a.Row(r.footer)
	if m.prompt != nil {
		m.prompt.draw(row, t)
		return
	}
	keysW := drawKeys(m, row, t, r.detail != r.footer)
	left := row.Sub(0, 0, row.W-keysW-1, 1)
	if r.detail != r.footer {
		left = a.Row(r.detail)
	}
	if m.message.text != "" {
		st := canvas.Style{FG: t.Good, Attr: canvas.Bold}
		switch {
		case m.message.problem:
			st.FG = t.Crit
		case m.message.hint:
			st = t.Plain()
		}
		text := m.showable(m.message.text, m.message.paths...)
		lines := []string{canvas.CutLeft(text, a.W-2)}
		if m.message.problem && len(m.message.paths) == 0 { // why something can't be, and what to do, is read to its end
			lines, _ = style.Wrap(text, a.W-2, maxMessageRows)
		}
		for i, s := range lines {
			full := a.Row(r.detail - len(lines) + 1 + i)
			full.Fill(' ', canvas.Style{})
			full.Put(1, 0, s, st)
		}
		return
	}
	drawDetail(m, left, t)
}

// drawKeys draws the keys that matter here, as many as fit, and returns the columns they take: those that lead on from
// anywhere always, the others in their order. On a row of their own they begin on the left.
func drawKeys(m *Model, a canvas.Area, t *style.Theme, ownRow bool) int {
	type hint struct {
		key, word string
		b         binding
	}
	var hints []hint
	for _, k := range ofFirst(m.maps()) {
		for _, b := range k.bindings {
			if b.short != "" && (b.when == nil || b.when(m)) {
				hints = append(hints, hint{cmp.Or(b.footer, b.show), b.short, b})
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
		if h.b.always {
			w += width(h)
		}
	}
	full := false
	hints = slices.DeleteFunc(hints, func(h hint) bool {
		if h.b.always {
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
		m.onPress(a.Sub(from, 0, x-from, 1), func(on Host, _, _ int) tea.Cmd { return h.b.do(on) })
		x += 2
	}
	return w
}

// drawDetail describes what is selected in the view.
func drawDetail(m *Model, a canvas.Area, t *style.Theme) {
	name, rest := m.current().detail(&m.scene)
	if name == "" && m.page == pageLive && m.regions.legend == 0 && m.regions.detail != m.regions.footer {
		style.DrawLegend(a, t, m.opt.ASCII)
		return
	}
	if name == "" {
		a.Put(1, 0, canvas.Cut(rest, a.W-2), t.Dimmed())
		return
	}
	name = canvas.Cut(name, max(a.W/2, a.W-4-canvas.Width(rest)))
	x := a.Put(1, 0, name, t.Bold())
	a.Put(x+2, 0, canvas.Cut(rest, a.W-x-2), t.Dimmed())
}

// detail describes the selected thread in full, or sums up the selected group.
func (v *timelineView) detail(sc *scene) (name, rest string) {
	if w := v.selectedRow(); w != nil {
		return sc.rowDetail(w)
	}
	return "", ""
}

// rowDetail describes a row of threads.
func (sc *scene) rowDetail(w *row) (name, rest string) {
	var parts []string
	if w.isGroup {
		var listed int64
		for _, ns := range w.totals {
			listed += ns
		}
		states := urgency
		slices.SortStableFunc(states[:], func(x, y gvl.State) int { return cmp.Compare(w.totals[y], w.totals[x]) })
		for _, s := range states {
			if sh := style.Share(w.totals[s], listed); sh >= 0.005 {
				parts = append(parts, fmt.Sprintf("%s %s", s, units.Percent(sh)))
			}
		}
		return w.name, strings.Join(parts, " · ")
	}
	th := &sc.threads[w.members[0]]
	info, _ := sc.dict.Thread(th.id)
	if th.known {
		parts = append(parts, gvl.DescribeFit(th.state, sc.dict)[0])
		if _, f := sc.dict.Stack(th.state.Stack); f != 0 {
			fr := sc.dict.Frame(f)
			where := fr.Label
			if fr.Path != "" && !fr.C {
				where += " " + style.LineIn(fr.Path, fr.Line, fr.Uncertain)
			}
			parts = append(parts, "in "+where)
		}
	}
	if info.TID != 0 {
		parts = append(parts, fmt.Sprintf("tid %d", info.TID))
	}
	if info.Ractor > 1 {
		parts = append(parts, fmt.Sprintf("ractor %d", info.Ractor))
	}
	return th.name, strings.Join(parts, "  ")
}
