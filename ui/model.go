package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Model is the root of the screen: it holds what the person chose and, from refresh to refresh, what the Store held.
// View draws from the Model alone.
type Model struct {
	scene
	fleet *fleet // nil: there is one process only
	keys  keyMap
	live  *livePage // pages[pageLive]
	// weightKeys work where the flamegraph is on the screen.
	weightKeys keyMap
	pages      [numPages]page
	// threadFrom is the page that the page of one thread was opened from.
	threadFrom pageID

	filter    rowKey
	over      overlay
	scroll    int // of the overlay
	lastPress mousePress
	pressed   []string // the last keys, while presenting
	// recording: the key W has begun a recording that goes on.
	recording bool
	// recLost is how many samples it lacked at the last picture.
	recLost uint64
	// recordedWith says what of the names its file holds, which is decided when it is begun.
	recordedWith string
	recBusy      bool // its file is being opened or closed
	recAgain     bool // W was pressed meanwhile
	prompt       *prompt
	// message is what the last key has to say; the next key takes it away.
	message string
	problem bool     // message tells of a failure
	named   []string // the paths in message

	flameOf flameRange
	grid    canvas.Grid
	few     fewColors // of the terminal
	ground  ground
	// settled: the picture was made again after the last sample there was, in full.
	settled bool
	content string
}

// tickMsg asks for the next picture.
type tickMsg time.Time

// NewModel returns the screen over a Store. Its size comes with the first tea.WindowSizeMsg.
func NewModel(store *Store, o Options) (*Model, error) {
	o = o.withDefaults()
	theme, err := ThemeByName(o.Theme)
	if err != nil {
		return nil, err
	}
	pages := newPages()
	return &Model{
		scene: scene{
			store: store, opt: o, theme: theme, now: time.Now, process: store.Process(), notes: recordedNotes(store.src, o.Redactor),
			span: span{windowNS: int64(o.Window), keepNS: store.keepNS},
		},
		keys: globalKeys(false), weightKeys: weightKeys(), live: pages[pageLive].(*livePage), pages: pages, message: o.Notice,
	}, nil
}

// Init starts the clock of the screen.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.tick()}
	if m.opt.Theme == "" || m.opt.Theme == "auto" {
		cmds = append(cmds, askGround())
	}
	return tea.Batch(cmds...)
}

func (m *Model) tick() tea.Cmd {
	return tea.Tick(m.opt.Repaint, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update takes keys, sizes and ticks. It does no I/O.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = min(msg.Width, maxTerminal), min(msg.Height, maxTerminal)
		m.refresh()
	case tickMsg:
		if m.playOn(time.Time(msg)) {
			m.refresh()
		}
		m.tickOn()
		return m, tea.Batch(m.tick(), m.wanted())
	case tea.BackgroundColorMsg:
		m.toldGround(&msg)
	case noGroundMsg:
		m.toldGround(nil)
	case tea.ColorProfileMsg:
		m.setProfile(msg)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case sourceMsg, fineMsg, instantMsg:
		for _, p := range m.pages {
			if p, ok := p.(fetching); ok {
				p.take(m, msg)
			}
		}
	case tea.MouseMsg:
		return m, m.mouse(msg)
	case savedMsg:
		return m, m.saved(msg)
	case suspendedMsg:
		if msg.err != nil {
			m.message, m.problem = msg.err.Error(), true
			m.draw()
		}
	case recordingMsg:
		return m, m.recorded(msg)
	}
	return m, nil
}

// maxTerminal bounds the size of a picture.
const maxTerminal = 1000

// key dispatches a key: to the prompt, the help, the view with the focus, or the keys that work everywhere.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	m.message, m.problem, m.named = "", false, nil
	m.noteKeyPress(msg)
	key := msg.String()
	if other, ok := m.opt.Keys[key]; ok && m.prompt == nil {
		key = other
	}
	if m.prompt != nil {
		m.promptKey(msg)
		return nil
	}
	if m.over != noOverlay {
		return m.overlayKey(key)
	}
	b := m.binding(key)
	if b == nil {
		return nil
	}
	cmd := b.do(m)
	m.draw()
	return cmd
}

// overlayPage is how many lines of an overlay the page keys go.
const overlayPage = 10

func (m *Model) overlayKey(key string) tea.Cmd {
	switch key {
	case "up", "k":
		m.scroll = max(0, m.scroll-1)
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll = max(0, m.scroll-overlayPage)
	case "pgdown":
		m.scroll += overlayPage
	case "q", "ctrl+c":
		return tea.Quit
	default:
		m.over, m.scroll = noOverlay, 0
	}
	m.draw()
	return nil
}
