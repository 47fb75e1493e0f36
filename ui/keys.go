package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
)

// on makes what a Model does of a key what a Host does.
func on(do func(m *Model) tea.Cmd) func(Host) tea.Cmd {
	return func(h Host) tea.Cmd { return do(h.(*Model)) }
}

// onlyIf is on for when a key does something.
func onlyIf(when func(m *Model) bool) func(Host) bool {
	return func(h Host) bool { return when(h.(*Model)) }
}

// globalKeys work everywhere.
func globalKeys(o offers) keyMap {
	k := keyMap{title: "everywhere", bindings: []binding{
		{keys: []string{"?"}, show: "?", short: "help", always: true, help: "this help, and what the letters and colours mean",
			do: on(func(m *Model) tea.Cmd { m.over.toggle(helpOverlay); return nil })},
		{keys: []string{"!"}, show: "!", help: "all findings in full, with what to do about each",
			do: on(func(m *Model) tea.Cmd { m.over.toggle(findingsOverlay); return nil })},
		{keys: []string{"space", " "}, show: "space", short: "freeze", help: "freeze the picture (sampling goes on), or return to live",
			do: on(func(m *Model) tea.Cmd { m.toggleFreeze(); m.Refresh(); return nil })},
		{keys: []string{"["}, show: "[ ]", short: "time", help: "move back and forth in time: every view shows that moment",
			do: on(func(m *Model) tea.Cmd { m.move(-m.stepNS()); m.Refresh(); return nil })},
		{keys: []string{"]"}, do: on(func(m *Model) tea.Cmd { m.move(+m.stepNS()); m.Refresh(); return nil })},
		{keys: []string{"{"}, show: "{ }", short: "", help: "show a longer or a shorter stretch of time",
			do: on(func(m *Model) tea.Cmd { m.zoom(+1); m.Refresh(); return nil })},
		{keys: []string{"}"}, do: on(func(m *Model) tea.Cmd { m.zoom(-1); m.Refresh(); return nil })},
		{keys: []string{"E", "shift+e"}, show: "E", short: "exact", help: "exact mode, on and off: every change of the GVL, by breakpoints that the kernel puts into the process; it asks first",
			when: onlyIf(func(m *Model) bool { return m.opt.Exact != nil }), do: on(func(m *Model) tea.Cmd { return m.exactKey.press(m) })},
		{keys: []string{"s"}, show: "s", short: "save", help: "save a snapshot: profile, thread dump, flamegraph and this screen, in one folder",
			do: on(func(m *Model) tea.Cmd { return save(m) })},
		{keys: []string{"y"}, show: "y", help: "copy the stack of the selected thread or frame, or a summary when nothing is selected; Y: the summary",
			do: on(func(m *Model) tea.Cmd { return yank(m) })},
		{keys: []string{"Y", "shift+y"}, do: on(func(m *Model) tea.Cmd { return yankSummary(m) })},
		{keys: []string{"m"}, show: "m", help: "mark this moment on the time axis with a note",
			do: on(func(m *Model) tea.Cmd { openNote(m); return nil })},
		{keys: []string{"W", "shift+w"}, show: "W", help: "record all that is seen from now on to a file (ddtop replay), and end that",
			do: on(func(m *Model) tea.Cmd { return m.recordKey.press(m.store, &m.scene, &m.message) })},
		{keys: []string{"P", "shift+p"}, show: "P", help: "presentation: larger spacing, no directory names, key presses in a corner",
			do: on(func(m *Model) tea.Cmd { present(m); return nil })},
		{keys: []string{"p"}, show: "p", help: "play the history (or the recording) from the moment shown, and stop",
			do: on(func(m *Model) tea.Cmd { m.togglePlay(); m.Refresh(); return nil })},
		{keys: []string{"+"}, show: "+ -", short: "speed", help: "play faster, slower", when: onlyIf(func(m *Model) bool { return m.playing }),
			do: on(func(m *Model) tea.Cmd { playFaster(m, +1); return nil })},
		{keys: []string{"-"}, do: on(func(m *Model) tea.Cmd { playFaster(m, -1); return nil })},
		{keys: []string{","}, show: ", .", help: "go back and forth by a tenth of the history",
			do: on(func(m *Model) tea.Cmd { m.move(-m.seekNS()); m.Refresh(); return nil })},
		{keys: []string{"."}, do: on(func(m *Model) tea.Cmd { m.move(+m.seekNS()); m.Refresh(); return nil })},
		{keys: []string{"ctrl+l"}, show: "ctrl-l", help: "redraw the screen",
			do: on(func(m *Model) tea.Cmd { return tea.ClearScreen })},
		{keys: []string{"q", "ctrl+c"}, show: "q ctrl-z", footer: "q", short: "quit", always: true, help: "quit; go back to the shell until fg",
			do: on(func(m *Model) tea.Cmd { return tea.Quit })},
		{keys: []string{"ctrl+z"}, do: on(func(m *Model) tea.Cmd { return suspend(m) })},
	}}
	k.bindings = slices.Insert(k.bindings, 1, tabKeys(o)...)
	if o.processes {
		k.bindings = slices.Insert(k.bindings, len(k.bindings)-3, processKeys()...)
	}
	return k
}

// weightKeys work wherever the flamegraph is on the screen.
func weightKeys() keyMap {
	k := keyMap{title: "flamegraph: what it shows", bindings: []binding{
		{keys: []string{"/"}, show: "/", short: "find", help: "find frames by a regular expression over method and file names; threads that match by name, or ran them, stay listed",
			do: on(func(m *Model) tea.Cmd { openSearch(m); return nil })},
		{keys: []string{"n"}, show: "n N", short: "next", always: true, help: "next and previous match", when: onlyIf((*Model).searching),
			do: on(func(m *Model) tea.Cmd { nextMatch(m, +1); return nil })},
		{keys: []string{"N", "shift+n"}, do: on(func(m *Model) tea.Cmd { nextMatch(m, -1); return nil })},
		{keys: []string{"w"}, show: "w", short: "weight", help: "what the flamegraph measures: wall time, CPU time, waiting for the GVL, blame, allocation",
			do: on(func(m *Model) tea.Cmd { m.flame.nextMetric(); m.Refresh(); return nil })},
		{keys: []string{"I", "shift+i"}, show: "I", short: "idle", help: "show or hide parked and sleeping threads in the flamegraph",
			do: on(func(m *Model) tea.Cmd { m.flame.showIdle = !m.flame.showIdle; m.Refresh(); return nil })},
		{keys: []string{"o"}, show: "o", help: "colour frames by the state they were most in, or by where their code comes from",
			do: on(func(m *Model) tea.Cmd { m.flame.nextColouring(); m.Refresh(); return nil })},
		{keys: []string{"c"}, show: "c", help: "own code, with gems and Ruby as one row (⋯); only runs without a branch as one row; every frame",
			do: on(func(m *Model) tea.Cmd { m.flame.nextFolding(); m.Refresh(); return nil })},
		{keys: []string{"esc"}, show: "esc", short: "back", always: true, help: "back, one a press: zoom, what is hidden, selected thread, search, selected frame", when: onlyIf(canGoBack),
			do: on(func(m *Model) tea.Cmd { back(m); return nil })},
	}}
	k.bindings = append(k.bindings, shapeKeys()...)
	return k
}

// searchKeys work in views that are lists of threads or functions: what does not match is not listed.
func searchKeys() keyMap {
	return keyMap{title: "search", bindings: []binding{
		{keys: []string{"/"}, show: "/", short: "find", help: "list what matches a regular expression: names of threads, functions, files",
			do: on(func(m *Model) tea.Cmd { openSearch(m); return nil })},
		{keys: []string{"n"}, show: "n N", short: "next", help: "next and previous match", when: onlyIf((*Model).searching),
			do: on(func(m *Model) tea.Cmd { nextMatch(m, +1); return nil })},
		{keys: []string{"N", "shift+n"}, do: on(func(m *Model) tea.Cmd { nextMatch(m, -1); return nil })},
		{keys: []string{"esc"}, show: "esc", short: "all", always: true, help: "leave the search: list all", when: onlyIf((*Model).searching),
			do: on(func(m *Model) tea.Cmd { endSearch(m); return nil })},
	}}
}

// shapeKeys change what the flamegraph is made of.
func shapeKeys() []binding {
	return []binding{
		{keys: []string{"i"}, show: "i", help: "callees first: what was executed, and under it who called it",
			do: on(func(m *Model) tea.Cmd {
				m.flame.inverted = !m.flame.inverted
				m.flame.zoom, m.flame.selected, m.flame.top = nil, nil, 0
				m.Refresh()
				return nil
			})},
		{keys: []string{"x"}, show: "x", help: "leave the selected function out: its time goes to its caller (esc: all again)",
			do: on(func(m *Model) tea.Cmd { ofSelected(m, (*flameView).hideSelected); return nil })},
		{keys: []string{"X", "shift+x"}, show: "X", help: "only stacks that hold the selected function (esc: all again)",
			do: on(func(m *Model) tea.Cmd { ofSelected(m, (*flameView).focusSelected); return nil })},
		{keys: []string{"f"}, show: "f", help: "flames: the outermost frames at the bottom, or icicles: at the top",
			do: on(func(m *Model) tea.Cmd { m.flame.upward = !m.flame.upward; m.Refresh(); return nil })},
		{keys: []string{"="}, show: "=", help: "compare with the time before the last mark (m); again: with the time shown now; again: no more",
			do: on(func(m *Model) tea.Cmd { compare(m); return nil })},
	}
}

// ofSelected does something with the selected function. A row of frames is none.
func ofSelected(m *Model, do func(*flameView)) {
	if n := m.flame.selNode; n != nil && n.Kind == flamegraph.RunNode {
		m.message.say("these are many frames: enter opens the row")
	} else {
		do(&m.flame)
	}
	m.Refresh()
}
