package flame

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageFlame,
	Key:    "4",
	Help:   "the flamegraph over the whole screen",
	Shared: page.WeightsShared,
	Make:   page.Makes(New),
}

// Page is the flamegraph over the whole screen. It shares the flamegraph with the live view.
type Page struct {
	page.Plain
	flame *widget.Flame
	panel *widget.Panel
}

func New(c *widget.Parts) *Page {
	return &Page{Plain: page.Plain{KeyMap: widget.FlameKeys(&c.Flame)}, flame: &c.Flame, panel: &c.Panel}
}

func (p *Page) Load(*scene.Scene, *store.Reading) {}

func (p *Page) About(*scene.Scene) string { return p.flame.Shape() }

func (p *Page) Detail(sc *scene.Scene) (name, rest string) { return p.flame.Detail(sc.Dict) }

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	v := p.flame
	v.DrawRule(a.Row(0), &sc.Theme, true, sc.When())
	if v.Comparing() {
		v.DrawChanges(a.Row(a.H-1), &sc.Theme)
	}
	picture := a.Sub(0, 1, a.W, p.panel.FlameRows(sc))
	p.panel.Draw(a.Sub(0, 1+picture.H, a.W, p.panel.Rows), sc)
	v.Draw(picture, &sc.Theme, true, !sc.Opt.NoColor)
	sc.OnPress(picture, func(h scene.Host, x, y int) tea.Cmd { p.flame.SelectAt(x, y, picture.H); h.Refresh(); return nil })
}

func (p *Page) Wheel(h scene.Host, _, _, d int, _ bool) (tea.Cmd, bool) {
	p.flame.ScrollBy(d) // Refresh limits the scrolling and keeps the selection visible
	h.Refresh()
	return nil, true
}

func (p *Page) Stack(sc *scene.Scene) (string, []string) { return p.flame.Stack() }
