package ui

import (
	"fmt"
	"maps"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// on converts an action for a Model to an action for a scene.Host, as a key's Binding needs it.
func on(do func(m *Model) tea.Cmd) func(scene.Host) tea.Cmd {
	return func(h scene.Host) tea.Cmd { return do(h.(*Model)) }
}

// onlyIf converts a condition for a Model to a condition for a scene.Host, as Binding.When needs it.
func onlyIf(when func(m *Model) bool) func(scene.Host) bool {
	return func(h scene.Host) bool { return when(h.(*Model)) }
}

// globalKeys work everywhere.
func globalKeys(o scene.Offers) scene.KeyMap {
	k := scene.KeyMap{Title: "everywhere", Bindings: []scene.Binding{
		{Keys: []string{"?"}, Show: "?", Short: "help", Always: true, Help: "this help, and what the letters and colours mean",
			Do: on(func(m *Model) tea.Cmd { m.over.Toggle(widget.HelpOverlay); return nil })},
		{Keys: []string{"!"}, Show: "!", Help: "all findings in full, each with advice",
			Do: on(func(m *Model) tea.Cmd { m.over.Toggle(widget.FindingsOverlay); return nil })},
		{Keys: []string{"space", " "}, Show: "space", Short: "freeze", Help: "freeze the screen while sampling goes on, or return to live",
			Do: on(func(m *Model) tea.Cmd { m.ToggleFreeze(); m.Refresh(); return nil })},
		{Keys: []string{"["}, Show: "[ ]", Short: "time", Help: "move in time. All views show that moment",
			Do: on(func(m *Model) tea.Cmd { m.Move(-m.StepNS()); m.Refresh(); return nil })},
		{Keys: []string{"]"}, Do: on(func(m *Model) tea.Cmd { m.Move(+m.StepNS()); m.Refresh(); return nil })},
		{Keys: []string{"{"}, Show: "{ }", Short: "", Help: "show a longer or a shorter time",
			Do: on(func(m *Model) tea.Cmd { m.Zoom(+1); m.Refresh(); return nil })},
		{Keys: []string{"}"}, Do: on(func(m *Model) tea.Cmd { m.Zoom(-1); m.Refresh(); return nil })},
		{Keys: []string{"E", "shift+e"}, Show: "E", Short: "exact", Help: "switch exact mode on or off: breakpoints in the process report each change of the GVL. It asks first",
			When: onlyIf(func(m *Model) bool { return m.Opt.Exact != nil }), Do: on(func(m *Model) tea.Cmd { return m.exactKey.press(m) })},
		{Keys: []string{"B", "shift+b"}, Show: "B", Help: "budget: for 30 s ddtop may take 25 % of a CPU and reads more often, and exact mode may cost 15 %; again: back to the limits",
			When: onlyIf(func(m *Model) bool { return !m.Opt.Replay }), Do: on(func(m *Model) tea.Cmd { return m.moreKey.press(m) })},
		{Keys: []string{"s"}, Show: "s", Short: "save", Help: "save a snapshot in one folder: profile, thread dump, flamegraph and this screen",
			Do: on(func(m *Model) tea.Cmd { return save(m) })},
		{Keys: []string{"y"}, Show: "y", Help: "copy the stack of the selected thread or frame, or a summary if nothing is selected. Y: the summary",
			Do: on(func(m *Model) tea.Cmd { return yank(m) })},
		{Keys: []string{"Y", "shift+y"}, Do: on(func(m *Model) tea.Cmd { return yankSummary(m) })},
		{Keys: []string{"m"}, Show: "m", Help: "mark this moment on the time axis with a note",
			Do: on(func(m *Model) tea.Cmd { openNote(m); return nil })},
		{Keys: []string{"W", "shift+w"}, Show: "W", Help: "start or end a recording to a file, which ddtop replay shows",
			Do: on(func(m *Model) tea.Cmd { return m.recordKey.press(m.store, &m.Scene, &m.message) })},
		{Keys: []string{"P", "shift+p"}, Show: "P", Help: "presentation: larger spacing, no directory names, key presses in a corner",
			Do: on(func(m *Model) tea.Cmd { present(m); return nil })},
		{Keys: []string{"p"}, Show: "p", Help: "play the history or the recording from the moment shown, or stop",
			Do: on(func(m *Model) tea.Cmd { m.TogglePlay(); m.Refresh(); return nil })},
		{Keys: []string{"+"}, Show: "+ -", Short: "speed", Help: "play faster, slower", When: onlyIf(func(m *Model) bool { return m.Playing }),
			Do: on(func(m *Model) tea.Cmd { playFaster(m, +1); return nil })},
		{Keys: []string{"-"}, Do: on(func(m *Model) tea.Cmd { playFaster(m, -1); return nil })},
		{Keys: []string{","}, Show: ", .", Help: "move by a tenth of the history",
			Do: on(func(m *Model) tea.Cmd { m.Move(-m.SeekNS()); m.Refresh(); return nil })},
		{Keys: []string{"."}, Do: on(func(m *Model) tea.Cmd { m.Move(+m.SeekNS()); m.Refresh(); return nil })},
		{Keys: []string{"ctrl+l"}, Show: "ctrl-l", Help: "redraw the screen",
			Do: on(func(m *Model) tea.Cmd { return func() tea.Msg { return overwriteMsg{} } })},
		{Keys: []string{"q", "ctrl+c"}, Show: "q ctrl-z", Footer: "q", Short: "quit", Always: true, Help: "quit; go back to the shell until fg",
			Do: on(func(m *Model) tea.Cmd { return tea.Quit })},
		{Keys: []string{"ctrl+z"}, Do: on(func(m *Model) tea.Cmd { return suspend(m) })},
	}}
	k.Bindings = slices.Insert(k.Bindings, 1, tabKeys(o)...)
	if o.Processes {
		k.Bindings = slices.Insert(k.Bindings, len(k.Bindings)-3, processKeys()...)
	}
	return k
}

// weightKeys are the keys that choose what the flamegraph measures, such as time or waiting. They work in every view
// that shows the flamegraph.
func weightKeys() scene.KeyMap {
	k := scene.KeyMap{Title: "flamegraph: what it shows", Bindings: []scene.Binding{
		{Keys: []string{"/"}, Show: "/", Short: "find", Help: "find methods and files by a regular expression. Threads with a match stay listed",
			Do: on(func(m *Model) tea.Cmd { openSearch(m); return nil })},
		{Keys: []string{"n"}, Show: "n N", Short: "next", Always: true, Help: "next and previous match", When: onlyIf(searching),
			Do: on(func(m *Model) tea.Cmd { nextMatch(m, +1); return nil })},
		{Keys: []string{"N", "shift+n"}, Do: on(func(m *Model) tea.Cmd { nextMatch(m, -1); return nil })},
		{Keys: []string{"w"}, Show: "w", Short: "weight", Help: "what the flamegraph measures: wall time, CPU time, waiting for the GVL, blame, allocation",
			Do: on(func(m *Model) tea.Cmd { m.Flame.NextMetric(); m.Refresh(); return nil })},
		{Keys: []string{"I", "shift+i"}, Show: "I", Short: "idle", Help: "show or hide parked and sleeping threads in the flamegraph",
			Do: on(func(m *Model) tea.Cmd { m.Flame.ShowIdle = !m.Flame.ShowIdle; m.Refresh(); return nil })},
		{Keys: []string{"o"}, Show: "o", Help: "colour frames by their longest state, or by the origin of their code",
			Do: on(func(m *Model) tea.Cmd { m.Flame.NextColouring(); m.Refresh(); return nil })},
		{Keys: []string{"c"}, Show: "c", Help: "show own code, with gems and Ruby as one row (⋯), fold long runs only, or show every frame",
			Do: on(func(m *Model) tea.Cmd { m.Flame.NextFolding(); m.Refresh(); return nil })},
		{Keys: []string{"C", "shift+c"}, Show: "C", Help: "show in which C functions running threads spend their time, or stop it. It needs root",
			When: onlyIf(func(m *Model) bool { return m.Opt.Native != nil }), Do: on(func(m *Model) tea.Cmd { return m.nativeKey.press(m) })},
		{Keys: []string{"esc"}, Show: "esc", Short: "back", Always: true, Help: "go back one step: zoom, what is hidden, selected thread, search, selected frame", When: onlyIf(canGoBack),
			Do: on(func(m *Model) tea.Cmd { back(m); return nil })},
	}}
	k.Bindings = append(k.Bindings, shapeKeys()...)
	return k
}

// searchKeys are the keys of the search in lists of threads or functions. During a search the list shows only the rows
// that match.
func searchKeys() scene.KeyMap {
	return scene.KeyMap{Title: "search", Bindings: []scene.Binding{
		{Keys: []string{"/"}, Show: "/", Short: "find", Help: "list what matches a regular expression: names of threads, functions, files",
			Do: on(func(m *Model) tea.Cmd { openSearch(m); return nil })},
		{Keys: []string{"n"}, Show: "n N", Short: "next", Help: "next and previous match", When: onlyIf(searching),
			Do: on(func(m *Model) tea.Cmd { nextMatch(m, +1); return nil })},
		{Keys: []string{"N", "shift+n"}, Do: on(func(m *Model) tea.Cmd { nextMatch(m, -1); return nil })},
		{Keys: []string{"esc"}, Show: "esc", Short: "all", Always: true, Help: "leave the search: list all", When: onlyIf(searching),
			Do: on(func(m *Model) tea.Cmd { m.Flame.Search = nil; m.Refresh(); return nil })},
	}}
}

// belowKeys are the keys that lead to the descendants of the process that is shown.
func belowKeys() scene.KeyMap {
	return scene.KeyMap{Title: "processes below", Bindings: []scene.Binding{
		{Keys: []string{"tab"}, Show: "tab", Short: "watch them", Always: true,
			Help: "watch the processes below this one, too, as with --children. What was measured so far is lost",
			Do:   on(func(m *Model) tea.Cmd { m.toBelow = true; return tea.Quit })},
	}}
}

// shapeKeys are the keys that change how the flamegraph is drawn, which functions it has, and what it is compared with.
func shapeKeys() []scene.Binding {
	return []scene.Binding{
		{Keys: []string{"i"}, Show: "i", Help: "callees first: the executed functions, and their callers below",
			Do: on(func(m *Model) tea.Cmd {
				m.Flame.Inverted = !m.Flame.Inverted
				m.Flame.Zoom, m.Flame.Selected, m.Flame.Top = nil, nil, 0
				m.Refresh()
				return nil
			})},
		{Keys: []string{"x"}, Show: "x", Help: "leave the selected function out, so that its time goes to its caller (esc: all again)",
			Do: on(func(m *Model) tea.Cmd { ofSelected(m, (*widget.Flame).HideSelected); return nil })},
		{Keys: []string{"X", "shift+x"}, Show: "X", Help: "show only stacks with the selected function (esc: all again)",
			Do: on(func(m *Model) tea.Cmd { ofSelected(m, (*widget.Flame).FocusSelected); return nil })},
		{Keys: []string{"f"}, Show: "f", Help: "flames: the outermost frames at the bottom, or icicles: at the top",
			Do: on(func(m *Model) tea.Cmd { m.Flame.Upward = !m.Flame.Upward; m.Refresh(); return nil })},
		{Keys: []string{"="}, Show: "=", Help: "compare with the time before the last mark (m), then with the time shown now, then not at all",
			Do: on(func(m *Model) tea.Cmd { compare(m); return nil })},
	}
}

// ofSelected calls the function do with the flamegraph. It is for actions on the selected function. If the selected row
// consists of several folded frames, ofSelected refuses the action, because such a row is not a single function.
func ofSelected(m *Model, do func(*widget.Flame)) {
	if n := m.Flame.SelNode; n != nil && n.Kind == flamegraph.RunNode {
		m.message.Say("these are many frames: enter opens the row")
	} else {
		do(&m.Flame)
	}
	m.Refresh()
}

func searching(m *Model) bool { return m.Flame.Search != nil }

func canGoBack(m *Model) bool {
	return len(m.Flame.Zoom) > 0 || m.Flame.Shaped() || m.Filter != (scene.RowKey{}) || m.Route != (scene.EndpointKey{}) || m.Flame.Search != nil || m.Parts.HighlightsFrame(&m.Scene)
}

// back undoes one choice of the user. It goes through the zoom, the filter, the route, the search, and the selection
// that the timeline highlights, in this order. It undoes the first one that is set.
func back(m *Model) {
	switch {
	case m.Flame.ZoomOut():
	case m.Flame.Shaped():
		m.Flame.Unshape()
	case m.Filter != (scene.RowKey{}):
		m.Filter, m.Selected = scene.RowKey{}, scene.RowKey{}
	case m.Route != (scene.EndpointKey{}):
		m.Route = scene.EndpointKey{}
	case m.Flame.Search != nil:
		m.Flame.Search = nil
	default:
		m.Flame.Selected, m.Flame.SelNode = nil, nil
	}
	m.Refresh()
}

// playFaster changes the speed at which the history is played. If the history is not being played, a message says which
// key plays it.
func playFaster(m *Model, d int) {
	if !m.Playing {
		m.message.Tell("+ - change the speed while the history plays: p plays it")
		return
	}
	m.ChangeSpeed(d)
}

func nextMatch(m *Model, d int) {
	if m.Flame.Search == nil {
		m.message.Tell("nothing is searched for: / searches")
		return
	}
	if !hasFlame(m) { // in a list, every row matches, so move the cursor to the next row
		key := "down"
		if d < 0 {
			key = "up"
		}
		if b := m.binding(key); b != nil {
			b.Do(m)
		}
		return
	}
	m.Focus = scene.OnFlame
	m.Flame.NextMatch(d)
	m.Refresh()
}

// CheckKey checks a line of the user's settings that gives one key the meaning of another key. The parameter key is the
// key that gets the meaning, by Bubble Tea's name ("f", "ctrl+f", "f5"). A terminal must be able to send it. It must
// not be ctrl+c, which always quits. The parameter does is the key that already has the meaning ("space"). It must have
// a meaning in some view.
func CheckKey(key, does string) error {
	if key == "" || key == "ctrl+c" {
		return fmt.Errorf("the key %q can't be given another meaning", key)
	}
	if err := checkName(key); err != nil {
		return err
	}
	maps := []scene.KeyMap{globalKeys(scene.Offers{Processes: true, Requests: true}), weightKeys(), searchKeys()}
	for _, p := range newPages(widget.NewParts(new(scene.Selection))) {
		for _, k := range p.Keys(nil, true) {
			maps = append(maps, *k)
		}
	}
	known := func(key string) bool {
		return slices.ContainsFunc(maps, func(k scene.KeyMap) bool { return k.Find(key) != nil })
	}
	if known(does) {
		return nil
	}
	near := slices.DeleteFunc(nearestKeys(does), func(key string) bool { return !known(key) })
	if len(near) > 0 {
		return fmt.Errorf("no key %q does anything that %q could do: is it %s?", does, key, quotedList(near))
	}
	return fmt.Errorf("no key %q does anything that %q could do; ? on the screen lists them", does, key)
}

// aliasHelp lists the keys to which the user's settings give the meaning of another key.
func aliasHelp(m *Model) scene.KeyMap {
	k := scene.KeyMap{Title: "your keys (config.toml)"}
	for _, key := range slices.Sorted(maps.Keys(m.Opt.Keys)) {
		k.Bindings = append(k.Bindings, scene.Binding{Show: key, Help: "as " + m.Opt.Keys[key]})
	}
	return k
}

// compare changes what the flamegraph is compared with. Each call goes to the next possibility: nothing, the other
// recording, the time before the last mark, the time that is shown now. If there is no recording or no mark, it skips
// this possibility. The time before the mark has the length of the time on the screen, which the keys { and } change.
// The time that is shown now has the same length.
func compare(m *Model) {
	v := &m.Flame
	if m.LastNS == 0 {
		return
	}
	was := v.BaseKind
	v.Base, v.BaseKind, v.BaseWhen = nil, widget.NoBase, ""
	span := style.AxisTime(m.WindowNS)
	switch n := m.Notes.Last(m.AtNS); {
	case was == widget.NoBase && v.Against != nil:
		v.CompareAgainst()
		m.message.Say("compared from now on with " + v.BaseWhen + "; = goes on to a time of this one")
	case was <= widget.AgainstBase && n != nil:
		base := new(flamegraph.Snapshot)
		m.store.Read(func(r *store.Reading) { r.Rolling.SnapshotRange(n.AtNS-m.WindowNS, n.AtNS, base) })
		if len(base.Entries) > 0 {
			v.Base, v.BaseKind = base, widget.MarkBase
			v.BaseWhen = fmt.Sprintf("%s before %q", span, canvas.Cut(n.Text, 20))
			m.message.Say("compared from now on with the " + v.BaseWhen + "; = takes the time shown now instead")
			break
		}
		fallthrough // the history does not reach back to that time, so try the next possibility
	case was != widget.ShownBase:
		s := &m.Weights
		v.Base = &flamegraph.Snapshot{FromNS: s.FromNS, ToNS: s.ToNS, Entries: append([]flamegraph.Entry(nil), s.Entries...),
			Overflow: s.Overflow, Dropped: s.Dropped}
		v.BaseKind = widget.ShownBase
		v.BaseWhen = span + " until " + m.Process.WallTime(m.AtNS).Format("15:04:05")
		m.message.Say("compared from now on with the " + v.BaseWhen + ": go to another time with [ ], or wait; = stops")
	}
	m.Refresh()
}
