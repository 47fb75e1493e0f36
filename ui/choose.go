package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// Candidate is a process that the user can choose from the list.
type Candidate struct {
	PID, PPID, Threads int
	// CPU is the CPU time that the process has used since its start. Started is when the process started. Started is
	// zero if this is not known.
	CPU     time.Duration
	Started time.Time
	// Ruby is the release of Ruby that the process runs. It is empty if ddtop cannot read the process. In this case Why
	// gives the reason.
	Ruby, User, Why string
	// Title is the program's name, and Command its command line. Command is empty if it must not be shown.
	Title, Command string
}

// Matches reports whether the process matches the text that the user has typed. Each word must be in the process's PID,
// name or command line, in upper or lower case.
func (c *Candidate) Matches(typed string) bool {
	text := strings.ToLower(strconv.Itoa(c.PID) + " " + c.Title + " " + c.Command)
	for _, word := range strings.Fields(strings.ToLower(typed)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// Choosing is the input of Choose.
type Choosing struct {
	// List returns the processes in the order of their PIDs. It is called again and again while the list is shown.
	List func(context.Context) ([]Candidate, error)
	// First is the first result of List.
	First []Candidate
	// Filter is the text that the user has typed so far. Only processes that match it are listed.
	Filter string
	// Verb says in the footer what the key enter does, such as "attach".
	Verb string
}

// Choice is the process that the user has chosen. If Children is true, the user has also chosen its descendants.
type Choice struct {
	PID      int
	Children bool
}

const (
	// listFirst is the time between the first list and the second. The first list cannot show how much of a CPU each
	// process uses. listEvery is the time between two later lists. If it takes long to make a list, the pause after it
	// is longer: at least listRest times the time for making the list.
	listFirst = 300 * time.Millisecond
	listEvery = time.Second
	listRest  = 30
)

// Choose shows a list of processes and keeps it up to date. The user chooses a process with the arrows, by typing or
// with the mouse. Choose returns ErrCancelled if the user leaves the list, or if ctx ends.
func Choose(ctx context.Context, o scene.Options, c Choosing) (Choice, error) {
	if os.Getenv("NO_COLOR") != "" {
		o.NoColor = true
	}
	o.Tmux = os.Getenv("TMUX") != ""
	theme, err := style.ThemeByName(o.WithDefaults().Theme)
	if err != nil {
		return Choice{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := newChooser(ctx, o, c, theme, time.Now)
	if err := show(ctx, m, o); err != nil {
		return Choice{}, err
	}
	if m.chosen.PID == 0 {
		return Choice{}, errors.Join(ErrCancelled, m.failed)
	}
	return m.chosen, nil
}

// chooser is the screen on which the user chooses a process from a list.
type chooser struct {
	ctx context.Context
	opt scene.Options
	Choosing
	style.Colors
	now func() time.Time

	table  widget.List[*candidateRow, int]
	cursor int // the PID of the selected row
	all    []Candidate
	filter []rune
	// before has each process's CPU time in the previous list, by PID. The difference between this and the CPU time in
	// the new list shows how much of a CPU the process uses.
	before map[int]cpuTime
	chosen Choice
	failed error // the last error of List

	grid      canvas.Grid
	drawn     int
	w, h      int
	rowsFrom  int // the screen's row of the first process
	lastPress mousePress
}

// cpuTime is how much CPU time a process had used when a list was made, at the time at. share is how much of one CPU
// the process has used since the previous list. It is -1 if this is not known.
type cpuTime struct {
	started time.Time
	at      time.Time
	cpu     time.Duration
	share   float64
}

// candidateRow is a row of the list.
type candidateRow struct {
	Candidate
	depth int // how many ancestors of the process are in the list
	below int // how many descendants of the process are in the list
	share float64
}

func (r *candidateRow) ID() int { return r.PID }

func newChooser(ctx context.Context, o scene.Options, c Choosing, theme style.Theme, now func() time.Time) *chooser {
	m := &chooser{ctx: ctx, opt: o, Choosing: c, now: now, filter: []rune(c.Filter), before: make(map[int]cpuTime)}
	m.Theme = theme
	m.table.Cursor = &m.cursor
	m.setList(c.First)
	return m
}

// candidatesMsg is the message with a new list. The field took is how long it took to make the list.
type candidatesMsg struct {
	list []Candidate
	err  error
	took time.Duration
}

// Init returns a command that lists the processes again after listFirst. If the theme needs the terminal's background
// colour, another command asks the terminal for it.
func (m *chooser) Init() tea.Cmd {
	cmds := []tea.Cmd{m.listIn(listFirst)}
	if m.opt.Theme == "" || m.opt.Theme == "auto" {
		cmds = append(cmds, askGround())
	}
	return tea.Batch(cmds...)
}

// listIn returns a command that waits, and then lists the processes.
func (m *chooser) listIn(wait time.Duration) tea.Cmd {
	return func() tea.Msg {
		select {
		case <-m.ctx.Done():
			return nil
		case <-time.After(wait):
		}
		began := time.Now()
		l, err := m.List(m.ctx)
		return candidatesMsg{l, err, time.Since(began)}
	}
}

// setList replaces the list, and computes how much of a CPU each process has used since the previous list.
func (m *chooser) setList(l []Candidate) {
	now := m.now()
	next := make(map[int]cpuTime, len(l))
	for _, c := range l {
		t := cpuTime{started: c.Started, at: now, cpu: c.CPU, share: -1}
		// The system can give the PID of an ended process to a new one. Then the two start times differ. But even for
		// the same process, the computed start can differ by up to a clock tick. So differences below a second are
		// ignored.
		if b, ok := m.before[c.PID]; ok && c.CPU >= b.cpu && c.Started.Sub(b.started).Abs() < time.Second && now.After(b.at) {
			t.share = float64(c.CPU-b.cpu) / float64(now.Sub(b.at))
		}
		next[c.PID] = t
	}
	m.all, m.before = l, next
	m.arrange()
}

// arrange makes the rows of the list from the processes that match the filter. Each is followed by its descendants.
func (m *chooser) arrange() {
	left := make(map[int]*candidateRow)
	var order []*candidateRow
	for _, c := range m.all {
		if c.Matches(string(m.filter)) {
			r := &candidateRow{Candidate: c, share: m.before[c.PID].share}
			left[c.PID] = r
			order = append(order, r)
		}
	}
	children := make(map[int][]*candidateRow)
	var roots []*candidateRow
	for _, r := range order {
		if left[r.PPID] != nil && r.PPID != r.PID {
			children[r.PPID] = append(children[r.PPID], r)
		} else {
			roots = append(roots, r)
		}
	}
	m.table.Rows = m.table.Rows[:0]
	var add func(r *candidateRow, depth int)
	add = func(r *candidateRow, depth int) {
		if left[r.PID] == nil { // the process is already in the list: two processes can seem to be each other's parents
			return
		}
		delete(left, r.PID)
		r.depth = depth
		m.table.Rows = append(m.table.Rows, r)
		from := len(m.table.Rows)
		for _, c := range children[r.PID] {
			add(c, depth+1)
		}
		r.below = len(m.table.Rows) - from
	}
	for _, r := range roots {
		add(r, 0)
	}
	for _, r := range order {
		add(r, 0)
	}
	m.table.Settle()
}

// Update handles messages of Bubble Tea: the terminal's size, keys, the mouse and new lists.
func (m *chooser) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = min(msg.Width, scene.MaxTerminal), min(msg.Height, scene.MaxTerminal)
	case candidatesMsg:
		if m.failed = msg.err; msg.err == nil {
			m.setList(msg.list)
		}
		cmd = m.listIn(max(listEvery, listRest*msg.took))
	case tea.BackgroundColorMsg:
		m.SetGround(&msg)
	case noGroundMsg:
		m.SetGround(nil)
	case tea.ColorProfileMsg:
		m.SetProfile(msg)
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		m.put(msg.Content)
	case tea.MouseWheelMsg:
		by := widget.Step{Rows: 3}
		if msg.Mouse().Button == tea.MouseWheelUp {
			by.Rows = -3
		}
		m.table.Move(by)
	case tea.MouseClickMsg:
		cmd = m.press(msg.Mouse())
	default:
		return m, nil
	}
	m.draw()
	return m, cmd
}

// key handles a key press. If a key has no command, it is typed into the filter. The key q quits only while the filter
// is empty. Otherwise it is a letter, because a name can contain a q.
func (m *chooser) key(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	switch key {
	case "ctrl+c":
		return tea.Quit
	case "esc":
		if len(m.filter) == 0 {
			return tea.Quit
		}
		m.filter = m.filter[:0]
		m.arrange()
	case "enter":
		return m.choose(false)
	case "tab":
		return m.choose(true)
	case "up", "ctrl+p":
		m.table.Move(widget.Step{Rows: -1})
	case "down", "ctrl+n":
		m.table.Move(widget.Step{Rows: +1})
	case "pgup":
		m.table.Move(widget.Step{Screens: -1})
	case "pgdown":
		m.table.Move(widget.Step{Screens: +1})
	case "home":
		m.table.Move(widget.Step{Rows: -scene.MaxRows})
	case "end":
		m.table.Move(widget.Step{Rows: scene.MaxRows})
	case "backspace":
		if len(m.filter) > 0 {
			m.filter = m.filter[:len(m.filter)-1]
			m.arrange()
		}
	case "ctrl+u":
		m.filter = m.filter[:0]
		m.arrange()
	default:
		if key == "q" && len(m.filter) == 0 {
			return tea.Quit
		}
		m.put(msg.Key().Text)
	}
	return nil
}

// put appends typed or pasted text to the filter.
func (m *chooser) put(text string) {
	for _, r := range text {
		if unicode.IsPrint(r) && len(m.filter) < maxPrompt && (r != '/' && r != ' ' || len(m.filter) > 0) {
			m.filter = append(m.filter, r)
		}
	}
	m.arrange()
}

// choose chooses the row with the cursor.
func (m *chooser) choose(children bool) tea.Cmd {
	i := m.table.Index()
	if i < 0 || children && m.table.Rows[i].below == 0 {
		return nil
	}
	m.chosen = Choice{m.table.Rows[i].PID, children}
	return tea.Quit
}

// press handles a mouse click. It moves the cursor to the clicked row. If it is a double click, it also chooses the
// process of this row.
func (m *chooser) press(at tea.Mouse) tea.Cmd {
	i := m.table.Top + at.Y - m.rowsFrom
	if at.Button != tea.MouseLeft || at.Y < m.rowsFrom || at.Y >= m.rowsFrom+m.table.Height || i >= len(m.table.Rows) {
		return nil
	}
	m.cursor = m.table.Rows[i].PID
	if m.lastPress.doubled(0, at.Y, m.now()) {
		return m.choose(false)
	}
	return nil
}

func (m *chooser) picture() (g *canvas.Grid, number int) { return &m.grid, m.drawn }

// View returns the terminal's modes, such as whether it reports the mouse. It returns no picture, because the painter
// draws the picture.
func (m *chooser) View() tea.View {
	v := paintedView("ddtop")
	if !m.opt.NoMouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// Found returns a text that says how many Ruby processes there are, and how many of them match the filter.
func (m *chooser) Found() string {
	text := fmt.Sprintf("%d Ruby processes", len(m.all))
	if len(m.all) == 1 {
		text = "1 Ruby process"
	}
	if len(m.filter) > 0 {
		text = fmt.Sprintf("%d of %s", len(m.table.Rows), text)
	}
	return text
}
