package widget

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
)

// FlameKeys are the keys of a flamegraph.
func FlameKeys(v *Flame) scene.KeyMap {
	do := func(change func()) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { change(); h.Refresh(); return nil }
	}
	return scene.KeyMap{Title: "flamegraph", Bindings: []scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "zoom", Help: "zoom into the selected frame", Do: do(v.ZoomIn)},
		{Keys: []string{"up", "k"}, Show: "↑ ↓", Help: "select the caller, the heaviest callee (also k, j); view 1: the timeline shows where it runs", Do: do(v.up)},
		{Keys: []string{"down", "j"}, Do: do(v.Down)},
		{Keys: []string{"left", "h"}, Show: "← →", Help: "select the frame beside it (also h, l)", Do: do(func() { v.SelectBeside(-1) })},
		{Keys: []string{"right", "l"}, Do: do(func() { v.SelectBeside(+1) })},
		{Keys: []string{"pgup"}, Show: "pgup pgdn", Help: "scroll a deep flamegraph", Do: do(func() { v.pageBy(-1) })},
		{Keys: []string{"pgdown"}, Do: do(func() { v.pageBy(+1) })},
		{Keys: []string{"home", "g"}, Do: do(v.toRoot)},
	}}
}
