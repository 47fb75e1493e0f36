package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// Model is the root of the screen, and the Host of its pages. It loads the scene (the data to show) from the Store. It
// passes keys, clicks and messages to the parts of the screen that handle them. To draw, it needs only data that it
// already has.
type Model struct {
	scene.Scene
	*widget.Parts
	store *store.Store
	fleet *fleet // nil if there is only one process
	keys  scene.KeyMap
	// weightKeys work in views with the flamegraph.
	weightKeys scene.KeyMap
	searchKeys scene.KeyMap
	pages      map[scene.PageID]page.Page
	// came is the screen from which the user followed a finding or a route to the shown page. It is nil if the user
	// came in another way. backKeys are the keys that return to that screen.
	came     *origin
	backKeys scene.KeyMap
	// overKeys are the keys of each overlay, a box over the screen such as the help. front has the global keys that
	// also work while an overlay is open.
	overKeys [widget.NumOverlays]scene.KeyMap
	front    scene.KeyMap

	// belowKeys are the keys that work only if the shown process has descendants. toBelow is true after the user
	// pressed one of them.
	belowKeys scene.KeyMap
	toBelow   bool

	over      widget.Overlay
	lastPress mousePress
	pressed   pressedKeys
	recordKey recordKey
	exactKey  exactKey
	nativeKey nativeKey
	moreKey   moreKey
	prompt    *prompt // nil if the user types nothing
	message   scene.Message

	grid canvas.Grid
	// settled is true if nothing is left to draw: a complete picture was drawn after the last sample.
	settled bool
	// drawn is the number of pictures that were drawn. drawing is how long it took to draw the last picture at a tick.
	drawn   int
	drawing time.Duration
	pace    time.Duration // the last interval between ticks
	idle    bool          // nothing ran or waited in the process at the last tick
}

// tickMsg asks for the next picture.
type tickMsg time.Time

// NewModel returns a screen that shows the data of a Store. The first tea.WindowSizeMsg sets its size.
func NewModel(store *store.Store, o scene.Options) (*Model, error) {
	o = o.WithDefaults()
	theme, err := style.ThemeByName(o.Theme)
	if err != nil {
		return nil, err
	}
	theme.Letters = o.NoColor
	selected := new(scene.Selection)
	parts := widget.NewParts(selected)
	m := &Model{
		Scene: scene.Scene{
			Page: scene.PageLive,
			Dict: store.Dict, Opt: o, Colors: style.Colors{Theme: theme}, Now: time.Now, Process: store.Process(),
			Notes: scene.RecordedNotes(store.Src, o.Redactor), Span: scene.Span{WindowNS: int64(o.Window), KeepNS: store.KeepNS}, Selection: selected,
		},
		Parts: parts, store: store, weightKeys: weightKeys(), searchKeys: searchKeys(), backKeys: backKeys(),
		overKeys: overlayKeys(), belowKeys: belowKeys(), pages: newPages(parts),
		message: scene.Message{Text: o.Notice},
	}
	if o.Against != nil {
		m.Flame.Against = o.Against
		m.Flame.CompareAgainst()
	}
	setKeys(m, scene.Offers{})
	return m, nil
}

// Init starts the clock of the screen.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.tick()}
	if m.Opt.Theme == "" || m.Opt.Theme == "auto" {
		cmds = append(cmds, askGround())
	}
	return tea.Batch(cmds...)
}

const (
	// firstTick is the longest time between the first picture, which shows no samples, and the second. If the first
	// sample comes earlier, it wakes the screen (Store.Stir). Each later interval between pictures is a quarter longer
	// than the one before, up to Options.Repaint. So the first data appears at once. The early pictures cost little CPU
	// time, because there is little data.
	firstTick = 20 * time.Millisecond
	// restAfter sets the length of the pause after a picture: restAfter times the time for drawing the picture, but at
	// most longestRest. The pause leaves the CPU to other programs.
	restAfter   = 20
	longestRest = 2 * time.Second
	// idleTick is the time between two ticks of the screen while the process is idle. The Store can wake the screen
	// earlier (Stir). An idle process has one sample a second. idleTick is a bit longer than a second, so that the
	// samples wake the screen first.
	idleTick = 1100 * time.Millisecond
)

func (m *Model) tick() tea.Cmd {
	m.pace = min(max(m.pace*5/4, firstTick), m.Opt.Repaint)
	rest := max(m.pace, min(restAfter*m.drawing, longestRest))
	switch {
	case m.LastNS == 0: // the first sample ends the pause
	case !m.idle || m.Playing || m.pace < m.Opt.Repaint || m.fleet != nil:
		return tea.Tick(rest, func(t time.Time) tea.Msg { return tickMsg(t) })
	default:
		rest = max(rest, idleTick)
	}
	timer, stirred := time.NewTimer(rest), m.store.Stirred
	return func() tea.Msg {
		defer timer.Stop()
		select {
		case <-stirred:
		case <-timer.C:
		}
		return tickMsg(time.Now())
	}
}

// Update handles messages of Bubble Tea: keys, the terminal's size and ticks. It does no I/O.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.Width, m.Height = min(msg.Width, scene.MaxTerminal), min(msg.Height, scene.MaxTerminal)
		m.Refresh()
	case tickMsg:
		if m.PlayOn(time.Time(msg)) {
			m.Refresh()
		}
		began := time.Now()
		_, m.idle = m.store.Newest()
		tickOn(m)
		m.drawing = time.Since(began)
		return m, tea.Batch(m.tick(), m.fetch())
	case tea.BackgroundColorMsg:
		m.SetGround(&msg)
		m.Refresh()
	case noGroundMsg:
		m.SetGround(nil)
		m.Refresh()
	case tea.ColorProfileMsg:
		m.SetProfile(msg)
		m.Refresh()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			m.prompt.put(msg.Content)
			m.Refresh()
		}
	case page.Msg:
		for _, p := range m.pages {
			if p, ok := p.(page.Fetching); ok {
				p.Fetched(m, msg)
			}
		}
	case tea.MouseMsg:
		m.store.Stir()
		return m, mouse(m, msg)
	case savedMsg:
		return m, saved(m, msg)
	case suspendedMsg:
		if msg.err != nil {
			m.message.Fail(msg.err.Error())
			m.Draw()
		}
	case exactMsg:
		m.exactKey.done(msg, &m.Scene, &m.message)
		m.Refresh()
	case nativeMsg:
		m.nativeKey.done(msg, &m.Scene, &m.message)
		m.Refresh()
	case recordingMsg:
		cmd := m.recordKey.done(msg, m.store, &m.Scene, &m.message)
		m.Draw()
		return m, cmd
	}
	return m, nil
}

// key passes a key to the part of the screen that handles it: the prompt, the help, the view with the focus, or the
// keys that work everywhere.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	m.message.Clear()
	if m.Presenting && m.prompt == nil { // a prompt already shows what is typed
		m.pressed.add(msg.String())
	}
	m.store.Stir() // wakes the screen, because the next tick fetches what the key needs
	key := msg.String()
	if other, ok := m.Opt.Keys[key]; ok && m.prompt == nil {
		key = other
	}
	if m.prompt != nil {
		p := m.prompt
		if !p.key(msg) {
			m.prompt = nil
		}
		m.Refresh()
		return p.cmd
	}
	if m.over.What != widget.NoOverlay && m.binding(key) == nil {
		m.over = widget.Overlay{} // any other key closes the overlay, and then has its usual effect
		if m.keys.Find(key) == nil {
			m.Draw()
			return nil
		}
	}
	b := m.binding(key)
	if b == nil {
		unknownKey(m, key)
		m.Draw()
		return nil
	}
	cmd := b.Do(m)
	m.Draw()
	return cmd
}
