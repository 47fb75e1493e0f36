package ui

import (
	"bytes"
	"context"
	"fmt"
	"image/color"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// painted is a Bubble Tea program that draws its picture in a grid of cells. The painter writes this grid to the
// terminal.
type painted interface {
	tea.Model
	// picture returns the grid and the number of the picture in it. The number changes whenever the picture changes.
	picture() (g *canvas.Grid, number int)
}

// painter writes the pictures of a program to its terminal, instead of Bubble Tea. It writes each picture at once, and
// only the cells that have changed. Bubble Tea does everything else: it switches the terminal's modes (alternate
// screen, keys, the mouse, the title) and asks the terminal questions. The View that Bubble Tea gets has no content.
// Bubble Tea's output passes through the painter, so the painter knows when it may write to the terminal.
type painter struct {
	out  io.Writer
	wake chan struct{} // signals that a field below may have to be written

	mu     sync.Mutex // guards the following fields, and is never held during a write
	next   *canvas.Grid
	news   bool                           // true if the picture in next is not written yet
	colors *func(color.Color) color.Color // new colours for SetColors, or nil
	// profiled is true once the painter knows how many colours the terminal has. Bubble Tea reports this to every
	// program.
	profiled bool
	// synchronized is true if the terminal can show all changes of a picture at the same time.
	synchronized bool
	asked        string // further bytes to write, besides pictures
	whole        bool   // the next picture overwrites the whole screen

	writing  sync.Mutex // is held during a write, and guards the following fields
	terminal canvas.Terminal
	shown    *canvas.Grid
	// entered is true if the terminal shows its alternate screen. The field left is true while another program has the
	// terminal, such as a shell.
	entered, left bool
}

// leastBetween is the shortest time between two pictures on the terminal, for example while a key is held down. Only
// the second picture comes without this pause, because the first one shows no samples.
const leastBetween = 50 * time.Millisecond

// newProgram returns a program of Bubble Tea on a terminal, and the painter that runs it. If out is nil,
// the terminal is standard output.
func newProgram(ctx context.Context, model painted, out io.Writer, opts ...tea.ProgramOption) (*tea.Program, *painter) {
	if out == nil {
		out = os.Stdout
	}
	p := &painter{out: out, next: new(canvas.Grid), shown: new(canvas.Grid), wake: make(chan struct{}, 1)}
	// The code that calls this package handles signals: at a signal it ends ctx. Bubble Tea's own handler (2.0.9,
	// handleSignals) would get the same signal and send a message to the program's loop. If the end of ctx has already
	// stopped this loop, no code reads the message. Then the handler waits forever, and the end of the program waits
	// for the handler.
	opts = append(opts, tea.WithContext(ctx), tea.WithFPS(modesPerSecond), tea.WithoutSignalHandler(), tea.WithOutput(p.output()))
	return tea.NewProgram(&painting{painted: model, p: p}, opts...), p
}

// run runs the program until it ends, and then restores the terminal.
func (p *painter) run(program *tea.Program) error {
	ended, painted := make(chan struct{}), make(chan error, 1)
	go func() {
		err := p.paintUntil(ended)
		painted <- err // send the error before the program ends because of it, so that the error can be shown
		if err != nil {
			program.Kill()
		}
	}()
	_, err := program.Run()
	close(ended)
	select {
	case failed := <-painted:
		if failed != nil {
			err = failed
		}
	default: // the painter may hang in a write to a terminal that no program reads
	}
	p.leave()
	return err
}

// paintedView returns the View of a program whose pictures the painter draws. Its content is one blank, because without
// content Bubble Tea (2.0.9) would behave as if the terminal had no rows.
func paintedView(title string) tea.View {
	v := tea.NewView(" ")
	v.AltScreen, v.WindowTitle = true, title
	return v
}

// output returns the writer to which Bubble Tea writes its output.
func (p *painter) output() io.Writer {
	if f, ok := p.out.(*os.File); ok {
		return paintedFile{p, f}
	}
	return p
}

// paintedFile is a painter whose output is a file, such as a terminal. Bubble Tea uses this file to find the terminal's
// size.
type paintedFile struct {
	*painter
	f *os.File
}

func (f paintedFile) Read(b []byte) (int, error) { return f.f.Read(b) }
func (f paintedFile) Close() error               { return f.f.Close() }
func (f paintedFile) Fd() uintptr                { return f.f.Fd() }

const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// Write receives the output of Bubble Tea. If Bubble Tea clears the screen, Write drops this command, and the next
// picture overwrites the whole screen instead. This prevents flicker. Write enters the alternate screen only once,
// because a second time would overwrite the saved position of the cursor.
func (p *painter) Write(b []byte) (int, error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	enter := bytes.Contains(b, []byte(ansi.SetModeAltScreenSaveCursor))
	leave := bytes.Contains(b, []byte(ansi.ResetModeAltScreenSaveCursor))
	own := b
	if enter && p.entered {
		own = bytes.ReplaceAll(own, []byte(ansi.SetModeAltScreenSaveCursor), nil)
	}
	if !leave {
		own = bytes.ReplaceAll(own, []byte(ansi.EraseEntireScreen), nil)
	}
	if _, err := p.out.Write(own); err != nil {
		return 0, err
	}
	if enter || bytes.Contains(b, []byte(ansi.EraseEntireScreen)) {
		p.terminal.Forget()
		p.again()
	}
	p.left = leave || p.left && !enter
	p.entered = !leave && (p.entered || enter)
	return len(b), nil
}

// paint copies a picture, and the painter's goroutine then writes the copy. paint never waits. If the terminal is slow,
// older pictures are skipped, and the newest picture is written next.
func (p *painter) paint(g *canvas.Grid) {
	p.mu.Lock()
	p.next.Copy(g)
	p.news = true
	p.mu.Unlock()
	p.again()
}

// again wakes the painter's goroutine, so that it checks whether there is something to write.
func (p *painter) again() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// paintUntil writes pictures until done is closed. It returns an error if the code that writes them panics.
func (p *painter) paintUntil(done <-chan struct{}) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("painting the screen: panic: %v\n%s", r, debug.Stack())
		}
	}()
	var shown time.Time
	for first := true; ; {
		select {
		case <-done:
			return nil
		case <-p.wake:
		}
		if rest := leastBetween - time.Since(shown); rest > 0 {
			select {
			case <-done:
				return nil
			case <-time.After(rest):
			}
		}
		switch {
		case !p.show():
		case first:
			first = false
		default:
			shown = time.Now()
		}
	}
}

// show writes the newest picture. It reports whether there was something to write.
func (p *painter) show() bool {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	if p.news {
		p.next, p.shown, p.news = p.shown, p.next, false
	}
	if p.colors != nil {
		p.terminal.SetColors(*p.colors)
		p.colors = nil
	}
	profiled, synchronized, asked := p.profiled, p.synchronized, p.asked
	p.asked = ""
	if p.whole {
		p.terminal.Forget()
		p.whole = false
	}
	p.mu.Unlock()
	if asked != "" && !p.left {
		_, _ = io.WriteString(p.out, asked)
	}
	if p.left || !profiled || p.shown.W == 0 {
		return false
	}
	if !p.entered {
		p.entered = true
		_, _ = io.WriteString(p.out, enterScreen) // the error is ignored, because Bubble Tea notices a lost terminal
	}
	b := p.terminal.Update(p.shown)
	if len(b) == 0 {
		return false
	}
	if synchronized {
		b = append(append([]byte(ansi.SetModeSynchronizedOutput), b...), ansi.ResetModeSynchronizedOutput...)
	}
	_, _ = p.out.Write(b)
	return true
}

// leave restores the terminal if it still shows the alternate screen.
func (p *painter) leave() {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.entered {
		p.entered = false
		_, _ = io.WriteString(p.out, leaveScreen)
	}
	p.left = true
}

// writeMsg is text that must be written to the terminal at once. Other output of Bubble Tea waits for Bubble Tea's
// clock. (The type is a struct, because ddtop regards a message of type string as an answer of the terminal: see
// tornAnswers.)
type writeMsg struct{ text string }

// overwriteMsg asks the painter to overwrite the whole screen with the next picture, at once.
type overwriteMsg struct{}

// modeChanged handles messages about the state of the terminal, and messages with text that must be written to the
// terminal.
func (p *painter) modeChanged(msg tea.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch msg := msg.(type) {
	case writeMsg:
		p.asked += msg.text
		p.again()
	case overwriteMsg:
		p.whole = true
		p.again()
	case tea.ColorProfileMsg:
		var convert func(color.Color) color.Color
		if msg.String() != style.TrueColor {
			convert = msg.Convert
		}
		p.colors, p.profiled = &convert, true
		p.again()
	case tea.ModeReportMsg:
		p.synchronized = p.synchronized || msg.Mode == ansi.ModeSynchronizedOutput && msg.Value == ansi.ModeReset
	}
}

// painting is the program that Bubble Tea runs. It wraps the real program, and passes its pictures to the painter.
type painting struct {
	painted
	p      *painter
	grid   *canvas.Grid
	number int
}

// Update hands a message to the program.
func (m *painting) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	defer m.giveBack()
	m.p.modeChanged(msg)
	_, cmd := m.painted.Update(msg)
	return m, cmd
}

// giveBack restores the terminal after a panic, before Bubble Tea prints the panic. Otherwise the text could be printed
// on the alternate screen, which disappears.
func (m *painting) giveBack() {
	if r := recover(); r != nil {
		m.p.leave()
		panic(r)
	}
}

// View passes the program's picture to the painter if it is new.
func (m *painting) View() tea.View {
	defer m.giveBack()
	g, n := m.picture()
	if g != m.grid || n != m.number {
		m.grid, m.number = g, n
		m.p.paint(g)
	}
	return m.painted.View()
}
