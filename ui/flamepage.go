package ui

import (
	"regexp"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// flamePage is the flamegraph over the whole screen: the one of the live view.
type flamePage struct {
	keys  keyMap
	flame *flameView
	panel *panelView
}

func newFlamePage(flame *flameView, panel *panelView) *flamePage {
	k := flameKeys()
	p := &flamePage{keys: keyMap{title: k.title}, flame: flame, panel: panel}
	for _, b := range k.bindings {
		if b.keys[0] != "tab" {
			p.keys.bindings = append(p.keys.bindings, b)
		}
	}
	return p
}

func (p *flamePage) keyMap() *keyMap { return &p.keys }

func (p *flamePage) load(*scene, *store.Reading) {}

func (p *flamePage) about(*scene) string { return p.flame.shape() }

func (p *flamePage) detail(sc *scene) (name, rest string) { return p.flame.detail(sc.dict) }

func (p *flamePage) draw(a canvas.Area, sc *scene) {
	v := p.flame
	v.drawRule(a.Row(0), &sc.Theme, true, sc.when())
	if v.comparing() {
		v.drawChanges(a.Row(a.H-1), &sc.Theme)
	}
	picture := a.Sub(0, 1, a.W, p.panel.flameRows(sc))
	p.panel.draw(a.Sub(0, 1+picture.H, a.W, p.panel.rows), sc)
	v.draw(picture, &sc.Theme, true, !sc.opt.NoColor)
	sc.onPress(picture, func(m *Model, x, y int) tea.Cmd { p.flame.selectAt(x, y, picture.H); m.refresh(); return nil })
}

func (p *flamePage) wheel(m *Model, _, _, d int, _ bool) (tea.Cmd, bool) {
	p.flame.scrollBy(d) // refresh keeps it within the picture, and the selection in sight
	m.refresh()
	return nil, true
}

// shapeKeys change what the flamegraph is made of.
func shapeKeys() []binding {
	return []binding{
		{keys: []string{"i"}, show: "i", help: "callees first: what was executed, and under it who called it",
			do: func(m *Model) tea.Cmd {
				m.flame.inverted = !m.flame.inverted
				m.flame.zoom, m.flame.selected, m.flame.top = nil, nil, 0
				m.refresh()
				return nil
			}},
		{keys: []string{"x"}, show: "x", help: "leave the selected function out: its time goes to its caller (esc: all again)",
			do: func(m *Model) tea.Cmd { m.ofSelected((*flameView).hideSelected); return nil }},
		{keys: []string{"X", "shift+x"}, show: "X", help: "only stacks that hold the selected function (esc: all again)",
			do: func(m *Model) tea.Cmd { m.ofSelected((*flameView).focusSelected); return nil }},
		{keys: []string{"f"}, show: "f", help: "flames: the outermost frames at the bottom, or icicles: at the top",
			do: func(m *Model) tea.Cmd { m.flame.upward = !m.flame.upward; m.refresh(); return nil }},
		{keys: []string{"="}, show: "=", help: "compare with the time before the last mark (m); again: with the time shown now; again: no more",
			do: func(m *Model) tea.Cmd { m.compare(); return nil }},
	}
}

// ofSelected does something with the selected function. A row of frames is none.
func (m *Model) ofSelected(do func(*flameView)) {
	if n := m.flame.selNode; n != nil && n.Kind == flamegraph.RunNode {
		m.message.say("these are many frames: enter opens the row")
	} else {
		do(&m.flame)
	}
	m.refresh()
}

// hideSelected leaves the selected function out of the picture.
func (v *flameView) hideSelected() {
	if v.first() || !v.selNode.IsFrame() {
		return
	}
	if v.hidden == nil {
		v.hidden = make(map[string]bool)
	}
	v.hidden[v.selNode.Label] = true
	if p := v.selNode.Parent; p != nil && p.Parent != nil {
		v.selected = flamegraph.PathOf(p)
	} else {
		v.selected = nil
	}
	v.zoom = nil
}

// focusSelected keeps only the stacks that hold the selected function.
func (v *flameView) focusSelected() {
	if v.first() || !v.selNode.IsFrame() {
		return
	}
	v.focused = v.selNode.Label
	v.zoom = nil
}

// shaped reports whether something is hidden or focused; unshape shows all again.
func (v *flameView) shaped() bool { return len(v.hidden) > 0 || v.focused != "" }

func (v *flameView) unshape() { v.hidden, v.focused = nil, "" }

// shape says in words what the picture is made of.
func (v *flameView) shape() string {
	s := "callers first"
	if v.inverted {
		s = "callees first"
	}
	if v.upward {
		s += ", at the bottom"
	}
	if v.focused != "" {
		s += " · only with " + v.focused
	}
	if n := len(v.hidden); n > 0 {
		s += " · " + units.Plural(n, "function", "functions") + " hidden (esc)"
	}
	if v.base != nil {
		s += " · compared with " + v.baseWhen
		if !v.comparing() {
			s += ", all threads alone"
		}
	}
	return s
}

// options adds what the person chose to the options of a tree.
func (v *flameView) options(o flamegraph.Options) flamegraph.Options {
	o.Endpoint = v.endpoint
	if v.inverted {
		o.Inverted, o.Root = true, nil
	}
	if len(v.hidden) > 0 {
		o.Hide = func(f *sampler.Frame) bool { return v.hidden[f.Label] }
	}
	if v.focused != "" {
		o.Keep = regexp.MustCompile("^" + regexp.QuoteMeta(v.focused) + "$")
	}
	return o
}
