package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Model is the root of the screen. It takes over into its scene what the Store holds, gives keys, clicks and messages to the owners
// of what they change, and has the views drawn. View draws from the Model alone.
type Model struct {
	scene
	*components
	store *store.Store
	fleet *fleet // nil: there is one process only
	keys  keyMap
	// weightKeys work where the flamegraph is on the screen.
	weightKeys keyMap
	searchKeys keyMap
	pages      map[pageID]page
	// came is where somebody was before a finding led to the page that is shown; nil: none did. backKeys lead there.
	came     *origin
	backKeys keyMap
	// overKeys work while something lies over the screen, front are those of keys that do then.
	overKeys [numOverlays]keyMap
	front    keyMap

	over      overlay
	lastPress mousePress
	pressed   pressedKeys
	recordKey recordKey
	exactKey  exactKey
	prompt    *prompt // nil: nothing is being typed
	message   message

	grid canvas.Grid
	// settled: the picture was made again after the last sample there was, in full.
	settled bool
	// drawn counts the pictures, drawing is how long the last one took to make at a tick.
	drawn   int
	drawing time.Duration
	pace    time.Duration // the last tick's
	idle    bool          // nothing ran or waited in the process at the last tick
}

// tickMsg asks for the next picture.
type tickMsg time.Time

// NewModel returns the screen over a Store. Its size comes with the first tea.WindowSizeMsg.
func NewModel(store *store.Store, o Options) (*Model, error) {
	o = o.withDefaults()
	theme, err := style.ThemeByName(o.Theme)
	if err != nil {
		return nil, err
	}
	selected := new(selection)
	parts := newComponents(selected)
	m := &Model{
		scene: scene{
			page: pageLive,
			dict: store.Dict, opt: o, Colors: style.Colors{Theme: theme}, now: time.Now, process: store.Process(),
			notes: recordedNotes(store.Src, o.Redactor), span: span{windowNS: int64(o.Window), keepNS: store.KeepNS}, selection: selected,
		},
		components: parts, store: store, weightKeys: weightKeys(), searchKeys: searchKeys(), backKeys: backKeys(),
		overKeys: overlayKeys(), pages: newPages(parts),
		message: message{text: o.Notice},
	}
	if o.Against != nil {
		m.flame.against = o.Against
		m.flame.compareAgainst()
	}
	setKeys(m, offers{})
	return m, nil
}

// Init starts the clock of the screen.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.tick()}
	if m.opt.Theme == "" || m.opt.Theme == "auto" {
		cmds = append(cmds, askGround())
	}
	return tea.Batch(cmds...)
}

const (
	// firstTick is when the first picture follows that of a start, which shows no samples. The next ones take a quarter longer
	// each, up to Options.Repaint: what is known is shown at once, and it is not much.
	firstTick = 20 * time.Millisecond
	// restAfter: a picture that took so long is followed by so many times that without one, up to longestRest. The machine has
	// something else to do.
	restAfter   = 20
	longestRest = 2 * time.Second
	// idleTick is the time between two ticks while the process is idle, unless something stirs.
	idleTick = time.Second
)

func (m *Model) tick() tea.Cmd {
	m.pace = min(max(m.pace*5/4, firstTick), m.opt.Repaint)
	rest := max(m.pace, min(restAfter*m.drawing, longestRest))
	if !m.idle || m.playing || m.pace < m.opt.Repaint || m.fleet != nil {
		return tea.Tick(rest, func(t time.Time) tea.Msg { return tickMsg(t) })
	}
	timer, stirred := time.NewTimer(max(rest, idleTick)), m.store.Stirred
	return func() tea.Msg {
		defer timer.Stop()
		select {
		case <-stirred:
		case <-timer.C:
		}
		return tickMsg(time.Now())
	}
}

// Update takes keys, sizes and ticks. It does no I/O.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = min(msg.Width, maxTerminal), min(msg.Height, maxTerminal)
		m.Refresh()
	case tickMsg:
		if m.playOn(time.Time(msg)) {
			m.Refresh()
		}
		began := time.Now()
		_, m.idle = m.store.Newest()
		tickOn(m)
		m.drawing = time.Since(began)
		return m, tea.Batch(m.tick(), m.wanted())
	case tea.BackgroundColorMsg:
		m.ToldGround(&msg)
		m.Refresh()
	case noGroundMsg:
		m.ToldGround(nil)
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
	case pageMsg:
		for _, p := range m.pages {
			if p, ok := p.(fetching); ok {
				p.fetched(m, msg)
			}
		}
	case tea.MouseMsg:
		m.store.Stir()
		return m, mouse(m, msg)
	case savedMsg:
		return m, saved(m, msg)
	case suspendedMsg:
		if msg.err != nil {
			m.message.fail(msg.err.Error())
			m.Draw()
		}
	case exactMsg:
		m.exactKey.done(msg, &m.scene, &m.message)
		m.Refresh()
	case recordingMsg:
		cmd := m.recordKey.done(msg, m.store, &m.scene, &m.message)
		m.Draw()
		return m, cmd
	}
	return m, nil
}

// maxTerminal bounds the size of a picture.
const maxTerminal = 1000

// key dispatches a key: to the prompt, the help, the view with the focus, or the keys that work everywhere.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	m.message.clear()
	if m.presenting && m.prompt == nil { // what is typed into a prompt is there already
		m.pressed.add(msg.String())
	}
	m.store.Stir() // what a key asks for is looked for at ticks
	key := msg.String()
	if other, ok := m.opt.Keys[key]; ok && m.prompt == nil {
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
	if m.over.what != noOverlay && m.binding(key) == nil {
		m.over = overlay{} // any other key closes it, and does what it does elsewhere
		if m.keys.find(key) == nil {
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
	cmd := b.do(m)
	m.Draw()
	return cmd
}
