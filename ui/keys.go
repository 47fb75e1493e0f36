package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"
)

// binding is one key of a view: the same value makes the key work, names it in the footer and explains it in the help,
// so the three can't disagree.
type binding struct {
	// keys are what tea.KeyPressMsg.String gives.
	keys []string
	// show is how the keys are written for people; short the one or two words of the footer ("" keeps it out of
	// there); help the line of the help overlay.
	show, short, help string
	// footer is how the footer writes the keys when it means others with them; "": as show.
	footer string
	// always: the footer has room for it whatever else has none.
	always bool
	// when, if set, says whether the key does anything now: the footer leaves it out otherwise.
	when func(*Model) bool
	do   func(*Model) tea.Cmd
}

// keyMap is a view's bindings, the more important first.
type keyMap struct {
	title    string
	bindings []binding
}

// find returns the binding of a key.
func (k *keyMap) find(key string) *binding {
	for i := range k.bindings {
		for _, s := range k.bindings[i].keys {
			if s == key {
				return &k.bindings[i]
			}
		}
	}
	return nil
}

// ofFirst returns the bindings of key maps without those whose key an earlier map has: what is shown of keys is what they do.
func ofFirst(maps []*keyMap) []keyMap {
	taken := make(map[string]bool)
	out := make([]keyMap, len(maps))
	for i, k := range maps {
		out[i].title = k.title
		for _, b := range k.bindings {
			if len(b.keys) == 0 || !taken[b.keys[0]] {
				out[i].bindings = append(out[i].bindings, b)
			}
		}
		for _, b := range k.bindings {
			for _, key := range b.keys {
				taken[key] = true
			}
		}
	}
	return out
}

// globalKeys work everywhere.
func globalKeys(o offers) keyMap {
	k := keyMap{title: "everywhere", bindings: []binding{
		{keys: []string{"?"}, show: "?", short: "help", always: true, help: "this help, and what the letters and colours mean",
			do: func(m *Model) tea.Cmd { m.over.toggle(helpOverlay); return nil }},
		{keys: []string{"!"}, show: "!", help: "all findings in full, with what to do about each",
			do: func(m *Model) tea.Cmd { m.over.toggle(findingsOverlay); return nil }},
		{keys: []string{"space", " "}, show: "space", short: "freeze", help: "freeze the picture (sampling goes on), or return to live",
			do: func(m *Model) tea.Cmd { m.toggleFreeze(); m.refresh(); return nil }},
		{keys: []string{"["}, show: "[ ]", short: "time", help: "move back and forth in time: every view shows that moment",
			do: func(m *Model) tea.Cmd { m.move(-m.stepNS()); m.refresh(); return nil }},
		{keys: []string{"]"}, do: func(m *Model) tea.Cmd { m.move(+m.stepNS()); m.refresh(); return nil }},
		{keys: []string{"{"}, show: "{ }", short: "", help: "show a longer or a shorter stretch of time",
			do: func(m *Model) tea.Cmd { m.zoom(+1); m.refresh(); return nil }},
		{keys: []string{"}"}, do: func(m *Model) tea.Cmd { m.zoom(-1); m.refresh(); return nil }},
		{keys: []string{"E", "shift+e"}, show: "E", short: "exact", help: "exact mode, on and off: every change of the GVL, by breakpoints that the kernel puts into the process; it asks first",
			when: func(m *Model) bool { return m.opt.Exact != nil }, do: func(m *Model) tea.Cmd { return m.exactKey.press(m) }},
		{keys: []string{"s"}, show: "s", short: "save", help: "save a snapshot: profile, thread dump, flamegraph and this screen, in one folder",
			do: func(m *Model) tea.Cmd { return m.save() }},
		{keys: []string{"y"}, show: "y", help: "copy the stack of the selected thread or frame, or a summary when nothing is selected; Y: the summary",
			do: func(m *Model) tea.Cmd { return m.yank() }},
		{keys: []string{"Y", "shift+y"}, do: func(m *Model) tea.Cmd { return m.yankSummary() }},
		{keys: []string{"m"}, show: "m", help: "mark this moment on the time axis with a note",
			do: func(m *Model) tea.Cmd { m.openNote(); return nil }},
		{keys: []string{"W", "shift+w"}, show: "W", help: "record all that is seen from now on to a file (ddtop replay), and end that",
			do: func(m *Model) tea.Cmd { return m.recordKey.press(m.store, &m.scene, &m.message) }},
		{keys: []string{"P", "shift+p"}, show: "P", help: "presentation: larger spacing, no directory names, key presses in a corner",
			do: func(m *Model) tea.Cmd { m.present(); return nil }},
		{keys: []string{"p"}, show: "p", help: "play the history (or the recording) from the moment shown, and stop",
			do: func(m *Model) tea.Cmd { m.togglePlay(); m.refresh(); return nil }},
		{keys: []string{"+"}, show: "+ -", short: "speed", help: "play faster, slower", when: func(m *Model) bool { return m.playing },
			do: func(m *Model) tea.Cmd { m.playFaster(+1); return nil }},
		{keys: []string{"-"}, do: func(m *Model) tea.Cmd { m.playFaster(-1); return nil }},
		{keys: []string{","}, show: ", .", help: "go back and forth by a tenth of the history",
			do: func(m *Model) tea.Cmd { m.move(-m.seekNS()); m.refresh(); return nil }},
		{keys: []string{"."}, do: func(m *Model) tea.Cmd { m.move(+m.seekNS()); m.refresh(); return nil }},
		{keys: []string{"ctrl+l"}, show: "ctrl-l", help: "redraw the screen",
			do: func(m *Model) tea.Cmd { return tea.ClearScreen }},
		{keys: []string{"q", "ctrl+c"}, show: "q ctrl-z", footer: "q", short: "quit", always: true, help: "quit; go back to the shell until fg",
			do: func(m *Model) tea.Cmd { return tea.Quit }},
		{keys: []string{"ctrl+z"}, do: func(m *Model) tea.Cmd { return m.suspend() }},
	}}
	k.bindings = slices.Insert(k.bindings, 1, o.tabKeys()...)
	if o.processes {
		k.bindings = slices.Insert(k.bindings, len(k.bindings)-3, processKeys()...)
	}
	return k
}

// weightKeys work wherever the flamegraph is on the screen.
func weightKeys() keyMap {
	k := keyMap{title: "flamegraph: what it shows", bindings: []binding{
		{keys: []string{"/"}, show: "/", short: "find", help: "find frames by a regular expression over method and file names; threads that match by name, or ran them, stay listed",
			do: func(m *Model) tea.Cmd { m.openSearch(); return nil }},
		{keys: []string{"n"}, show: "n N", short: "next", always: true, help: "next and previous match", when: (*Model).searching,
			do: func(m *Model) tea.Cmd { m.nextMatch(+1); return nil }},
		{keys: []string{"N", "shift+n"}, do: func(m *Model) tea.Cmd { m.nextMatch(-1); return nil }},
		{keys: []string{"w"}, show: "w", short: "weight", help: "what the flamegraph measures: wall time, CPU time, waiting for the GVL, blame, allocation",
			do: func(m *Model) tea.Cmd { m.flame.nextMetric(); m.refresh(); return nil }},
		{keys: []string{"I", "shift+i"}, show: "I", short: "idle", help: "show or hide parked and sleeping threads in the flamegraph",
			do: func(m *Model) tea.Cmd { m.flame.showIdle = !m.flame.showIdle; m.refresh(); return nil }},
		{keys: []string{"o"}, show: "o", help: "colour frames by the state they were most in, or by where their code comes from",
			do: func(m *Model) tea.Cmd { m.flame.nextColouring(); m.refresh(); return nil }},
		{keys: []string{"c"}, show: "c", help: "own code, with gems and Ruby as one row (⋯); only runs without a branch as one row; every frame",
			do: func(m *Model) tea.Cmd { m.flame.nextFolding(); m.refresh(); return nil }},
		{keys: []string{"esc"}, show: "esc", short: "back", always: true, help: "back, one a press: zoom, what is hidden, selected thread, search, selected frame", when: (*Model).canGoBack,
			do: func(m *Model) tea.Cmd { m.back(); return nil }},
	}}
	k.bindings = append(k.bindings, shapeKeys()...)
	return k
}

// searchKeys work in views that are lists of threads or functions: what does not match is not listed.
func searchKeys() keyMap {
	return keyMap{title: "search", bindings: []binding{
		{keys: []string{"/"}, show: "/", short: "find", help: "list what matches a regular expression: names of threads, functions, files",
			do: func(m *Model) tea.Cmd { m.openSearch(); return nil }},
		{keys: []string{"n"}, show: "n N", short: "next", help: "next and previous match", when: (*Model).searching,
			do: func(m *Model) tea.Cmd { m.nextMatch(+1); return nil }},
		{keys: []string{"N", "shift+n"}, do: func(m *Model) tea.Cmd { m.nextMatch(-1); return nil }},
		{keys: []string{"esc"}, show: "esc", short: "all", always: true, help: "leave the search: list all", when: (*Model).searching,
			do: func(m *Model) tea.Cmd { m.endSearch(); return nil }},
	}}
}

func timelineKeys() keyMap {
	selecting := func(m *Model, by step) tea.Cmd {
		m.selectThread(func(v *timelineView) { v.move(by) })
		return nil
	}
	return keyMap{title: "timeline", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the thread: stack, source, waits; or the group",
			do: func(m *Model) tea.Cmd {
				if m.timeline.index() < 0 {
					return selecting(m, step{rows: +1})
				}
				return m.openSelected()
			}},
		{keys: []string{"tab", "shift+tab"}, show: "tab", short: "flamegraph", help: "move between timeline and flamegraph",
			do: func(m *Model) tea.Cmd { m.live.switchFocus(m); return nil }},
	}, cursorKeys("", "select a thread or group, for the flamegraph too", selecting), []binding{
		{keys: []string{"right", "l"}, show: "→ ←", short: "", help: "open and close a group (also l, h)",
			do: func(m *Model) tea.Cmd { m.selectThread(func(v *timelineView) { v.expand(true) }); return nil }},
		{keys: []string{"left", "h"}, do: func(m *Model) tea.Cmd { m.selectThread(func(v *timelineView) { v.expand(false) }); return nil }},
	})}
}

func flameKeys() keyMap {
	return keyMap{title: "flamegraph", bindings: []binding{
		{keys: []string{"enter"}, show: "enter", short: "zoom", help: "zoom into the selected frame",
			do: func(m *Model) tea.Cmd { m.flame.zoomIn(); m.refresh(); return nil }},
		{keys: []string{"tab", "shift+tab"}, show: "tab", short: "timeline", help: "move between timeline and flamegraph",
			do: func(m *Model) tea.Cmd { m.live.switchFocus(m); return nil }},
		{keys: []string{"up", "k"}, show: "↑ ↓", help: "select the caller, the heaviest callee (also k, j); view 1: the timeline shows where it runs",
			do: func(m *Model) tea.Cmd { m.flame.up(); m.refresh(); return nil }},
		{keys: []string{"down", "j"}, do: func(m *Model) tea.Cmd { m.flame.down(); m.refresh(); return nil }},
		{keys: []string{"left", "h"}, show: "← →", help: "select the frame beside it (also h, l)",
			do: func(m *Model) tea.Cmd { m.flame.selectBeside(-1); m.refresh(); return nil }},
		{keys: []string{"right", "l"}, do: func(m *Model) tea.Cmd { m.flame.selectBeside(+1); m.refresh(); return nil }},
		{keys: []string{"pgup"}, show: "pgup pgdn", help: "scroll a deep flamegraph",
			do: func(m *Model) tea.Cmd { m.flame.pageBy(-1); m.refresh(); return nil }},
		{keys: []string{"pgdown"}, do: func(m *Model) tea.Cmd { m.flame.pageBy(+1); m.refresh(); return nil }},
		{keys: []string{"home", "g"}, do: func(m *Model) tea.Cmd { m.flame.toRoot(); m.refresh(); return nil }},
	}}
}
