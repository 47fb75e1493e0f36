package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// loadingAfter is how long ddtop waits before it shows the progress of the work that precedes the first screen. Most
// work ends earlier. Its progress would only make the screen flicker.
const loadingAfter = 250 * time.Millisecond

// ErrCancelled is returned by Load and Choose if the user has cancelled them.
var ErrCancelled = errors.New("it was cancelled before there was anything to show")

// Progress is the progress of some work.
type Progress struct {
	// What names the thing that is being read, for example a file's path.
	What string
	// Done is how much has been read, and Total how much there is in all. Both count bytes, or other things that the
	// field Unit names. Total is zero if it is not known.
	Done, Total int64
	// Unit is the name of what Done and Total count. It is empty if they count bytes.
	Unit string
}

// Load does the work that comes before Run: attaching to a process, or opening a file. If this takes longer than a
// moment, the terminal shows title and the progress. The user can cancel the work with esc, q or ctrl-c. Then work's
// ctx ends, and Load returns ErrCancelled. Load does not wait for the end of work, because not all work can be
// interrupted. If work later returns a result, Load closes it. work may report its progress as often as it likes, also
// after Load has returned.
func Load[T io.Closer](ctx context.Context, o scene.Options, title string, work func(ctx context.Context, tell func(Progress)) (T, error)) (T, error) {
	var value, none T
	var failed error
	working, stop := context.WithCancel(ctx)
	m := &loading{opt: o, title: title, finished: make(chan struct{}), began: time.Now()}
	m.opt.NoColor = o.NoColor || os.Getenv("NO_COLOR") != ""
	theme, err := style.ThemeByName(o.WithDefaults().Theme)
	if err != nil {
		stop()
		return none, err
	}
	m.theme, m.ctx = theme, working
	go func() {
		defer close(m.finished)
		value, failed = work(working, m.tell)
	}()
	select {
	case <-m.finished:
		stop()
		return value, failed
	case <-time.After(loadingAfter):
	}
	err = show(ctx, m, m.opt)
	select {
	case <-m.finished:
		if !m.cancelled && ctx.Err() == nil {
			stop()
			return value, errors.Join(failed, err)
		}
	default:
	}
	stop()
	go func() {
		if <-m.finished; failed == nil {
			// Load has already returned ErrCancelled, so an error of Close cannot be returned to any caller.
			_ = value.Close()
		}
	}()
	if m.cancelled {
		return none, errors.Join(ErrCancelled, err)
	}
	return none, errors.Join(context.Cause(ctx), err)
}

// loading is the screen that Load shows: the progress of the work.
type loading struct {
	ctx       context.Context
	opt       scene.Options
	theme     style.Theme
	title     string
	began     time.Time
	finished  chan struct{}
	cancelled bool
	grid      canvas.Grid
	drawn     int
	w, h      int

	mu  sync.Mutex
	now Progress
}

// tell stores the newest progress.
func (m *loading) tell(p Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = p
}

// Init starts the clock, and waits for the end of the work.
func (m *loading) Init() tea.Cmd {
	return tea.Batch(m.tick(), func() tea.Msg {
		select {
		case <-m.finished:
		case <-m.ctx.Done():
		}
		return tea.Quit()
	})
}

func (m *loading) tick() tea.Cmd {
	return tea.Tick(scene.MinRepaint, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update handles changes of the terminal's size, and the keys that cancel the work.
func (m *loading) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = min(msg.Width, scene.MaxTerminal), min(msg.Height, scene.MaxTerminal)
	case tickMsg:
		return m, m.tick()
	case tea.KeyPressMsg:
		key := msg.String()
		if other, ok := m.opt.Keys[key]; ok {
			key = other
		}
		switch key {
		case "esc", "q", "ctrl+c":
			m.cancelled = true
			return m, tea.Quit
		}
	}
	return m, nil
}

// maxLoadingBar is the largest width of the progress bar, in columns.
const maxLoadingBar = 60

// picture draws what is being done, a progress bar, and how to cancel the work.
func (m *loading) picture() (g *canvas.Grid, number int) {
	m.mu.Lock()
	p := m.now
	m.mu.Unlock()
	m.grid.Reset(m.w, m.h)
	m.draw(m.grid.Area(), p, time.Since(m.began))
	fitTerminal(&m.grid, &m.opt, new(style.Colors))
	m.drawn++
	return &m.grid, m.drawn
}

// View returns the modes of the terminal, such as whether it reports the mouse. The painter draws the picture.
func (m *loading) View() tea.View { return paintedView(canvas.Clean("ddtop " + m.title)) }

func (m *loading) draw(a canvas.Area, p Progress, passed time.Duration) {
	t := &m.theme
	w := min(a.W-4, maxLoadingBar)
	if w < 1 || a.H < 1 {
		return
	}
	x, y := (a.W-w)/2, max(0, a.H/2-3)
	a.Put(x, y, canvas.Cut(canvas.Clean(m.title), w), t.Bold())
	if p.What != "" {
		a.Put(x, y+1, canvas.CutLeft(canvas.Clean(p.What), w), t.Plain())
	}
	text := fmt.Sprintf("%d s", int(passed.Seconds()))
	if p.Total > 0 {
		done := min(max(p.Done, 0), p.Total)
		a.Put(x, y+2, style.Bar(style.Share(done, p.Total), w), canvas.Style{FG: t.Accent})
		of := fmt.Sprintf("%s of %s", units.Bytes(done), units.Bytes(p.Total))
		if p.Unit != "" {
			of = fmt.Sprintf("%s of %s %s", units.Count(done), units.Count(p.Total), p.Unit)
		}
		text = fmt.Sprintf("%d %% · %s · %s", done*100/p.Total, of, text)
	}
	a.Put(x, y+3, canvas.Cut(text, w), t.Dimmed())
	a.Put(x, y+5, canvas.Cut("esc cancels", w), t.Dimmed())
}
