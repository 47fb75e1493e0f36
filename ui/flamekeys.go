package ui

import tea "charm.land/bubbletea/v2"

// flameKeys are the keys of a flamegraph.
func flameKeys(v *flameView) keyMap {
	do := func(change func()) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd { change(); h.Refresh(); return nil }
	}
	return keyMap{title: "flamegraph", bindings: []binding{
		{keys: []string{"enter"}, show: "enter", short: "zoom", help: "zoom into the selected frame", do: do(v.zoomIn)},
		{keys: []string{"up", "k"}, show: "↑ ↓", help: "select the caller, the heaviest callee (also k, j); view 1: the timeline shows where it runs", do: do(v.up)},
		{keys: []string{"down", "j"}, do: do(v.down)},
		{keys: []string{"left", "h"}, show: "← →", help: "select the frame beside it (also h, l)", do: do(func() { v.selectBeside(-1) })},
		{keys: []string{"right", "l"}, do: do(func() { v.selectBeside(+1) })},
		{keys: []string{"pgup"}, show: "pgup pgdn", help: "scroll a deep flamegraph", do: do(func() { v.pageBy(-1) })},
		{keys: []string{"pgdown"}, do: do(func() { v.pageBy(+1) })},
		{keys: []string{"home", "g"}, do: do(v.toRoot)},
	}}
}
