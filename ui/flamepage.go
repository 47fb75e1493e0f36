package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// flamePage is the flamegraph over the whole screen: the one of the live view.
type flamePage struct {
	plainPage
	flame *flameView
	panel *panelView
}

func newFlamePage(c *components) *flamePage {
	return &flamePage{plainPage: plainPage{flameKeys(&c.flame)}, flame: &c.flame, panel: &c.panel}
}

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
	sc.onPress(picture, func(h Host, x, y int) tea.Cmd { p.flame.selectAt(x, y, picture.H); h.Refresh(); return nil })
}

func (p *flamePage) wheel(h Host, _, _, d int, _ bool) (tea.Cmd, bool) {
	p.flame.scrollBy(d) // refresh keeps it within the picture, and the selection in sight
	h.Refresh()
	return nil, true
}

func (p *flamePage) stack(sc *scene) (string, []string) { return p.flame.stack() }
