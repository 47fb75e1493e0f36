package ui

import (
	"strings"

	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// shownKeys is how many of the latest key presses a presentation shows in a corner.
const shownKeys = 5

// present begins or ends a presentation, in which other people see the screen. The screen then has larger spacing,
// hides the names of directories, and shows the pressed keys in a corner.
func present(m *Model) {
	m.Presenting = !m.Presenting
	m.pressed = nil
	redact.HideDirectories(m.Dict, m.Presenting)
	if m.fleet != nil {
		m.fleet.present(m.Presenting)
	}
	m.recordKey.renamed(&m.message)
	// The present flamegraph has the old names. Names are now hidden or shown again, so it must be built again.
	m.Flame.Builder, m.Flame.Zoom, m.Flame.Selected = nil, nil, nil
	for _, p := range m.pages {
		if p, ok := p.(page.Named); ok {
			p.NamesChanged()
		}
	}
	m.WeightsOf = scene.FlameRange{}
	m.Refresh()
}

// pressedKeys are the latest key presses in a presentation. The screen shows them in a corner.
type pressedKeys []string

func (k *pressedKeys) add(key string) {
	*k = append(*k, key)
	*k = (*k)[max(0, len(*k)-shownKeys):]
}

// draw writes the keys at the right end of row y.
func (k pressedKeys) draw(a canvas.Area, y int, t *style.Theme) {
	if len(k) > 0 {
		text := "  " + strings.Join(k, "  ") + "  "
		a.PutRight(y, text, canvas.Style{FG: t.Accent, BG: t.Background, Attr: canvas.Bold | canvas.Reverse})
	}
}
