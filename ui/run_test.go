//go:build !windows

package ui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// terminal is a pseudo-terminal on which a test runs ddtop's screen. The test reads what is written to it.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	done   chan error
	before *term.State

	mu  sync.Mutex
	out bytes.Buffer
}

func newTerminal(t *testing.T, ctx context.Context, o scene.Options) *terminal {
	t.Helper()
	x := openTerminal(t)
	o.Input, o.Output = x.slave, x.slave
	go func() { x.done <- Run(ctx, o) }()
	return x
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatalf("opening a pseudo-terminal: %v", err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, master: master, slave: slave, done: make(chan error, 1), before: before}
	go func() {
		_, _ = io.Copy(x, master) // copy until the terminal is closed
	}()
	// Do not close the slave side of the pseudo-terminal here: the library's reader may use its descriptor for a moment
	// after the program's end.
	t.Cleanup(func() { master.Close() })
	return x
}

func (x *terminal) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.Write(b)
}

func (x *terminal) output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

// patience is how long tests wait for an event before they fail. Normally events come at once, but a busy machine can
// delay them.
const patience = 2 * time.Minute

func (x *terminal) tail() string {
	s := x.output()
	return s[max(0, len(s)-500):]
}

// forget drops all output of the program so far. So the next waitFor waits for new output.
func (x *terminal) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.out.Reset()
}

// waitFor waits until the program has written a word to the terminal. The program sends only cells that change. So
// waitFor finds a word only if each of its letters differs from the letter that was in the cell before.
func (x *terminal) waitFor(text string) {
	x.t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(x.output(), text) {
		if time.Now().After(deadline) {
			x.t.Fatalf("no %q on the terminal; the last it got: %q", text, x.tail())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (x *terminal) keys(s string) {
	x.t.Helper()
	if _, err := x.master.WriteString(s); err != nil {
		x.t.Fatal(err)
	}
}

// wait waits for the end of Run and returns its error. The test fails if the terminal then has other settings than
// before Run.
func (x *terminal) wait() error {
	x.t.Helper()
	select {
	case err := <-x.done:
		after, stErr := term.GetState(int(x.slave.Fd()))
		if stErr != nil {
			x.t.Fatal(stErr)
		}
		if *after != *x.before {
			x.t.Error("the terminal's modes are not restored")
		}
		x.waitFor("\x1b[?1049l") // the program leaves the alternate screen
		x.waitFor("\x1b[?25h")   // the cursor is visible again
		return err
	case <-time.After(patience):
		x.t.Fatalf("Run does not return; the last on the terminal: %q", x.tail())
	}
	return nil
}

func TestRunInATerminal(t *testing.T) {
	src := demosource.New(demosource.Options{Length: time.Hour, Realtime: true, HogAfter: time.Second})
	x := newTerminal(t, t.Context(), scene.Options{Source: src, Folder: t.TempDir()})
	x.waitFor("order-service")
	x.waitFor("\x1b]11;?") // the program asks for the background
	x.waitFor("LIVE")
	x.keys("2")
	x.waitFor("current frame")
	x.keys("1")
	x.waitFor("GVL held by")
	x.keys("?")
	x.waitFor("signs")
	x.forget()
	x.keys("?")
	x.waitFor("http") // the help is closed
	x.keys("/")
	x.waitFor("selects")
	x.keys("zq")       // in a search, q is a letter
	x.keys("\x15\x7f") // ctrl-u and backspace end the search
	x.keys("s")
	x.waitFor("copied:")
	x.waitFor("\x1b]52;c;") // the text goes to the clipboard
	x.keys("q")
	if err := x.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	src := demosource.New(demosource.Options{Length: time.Hour, Realtime: true})
	x := newTerminal(t, ctx, scene.Options{Source: src})
	x.waitFor("LIVE")
	cancel()
	if err := x.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunOutlivesItsTarget(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 2 * time.Second, KilledAtEnd: true})
	x := newTerminal(t, t.Context(), scene.Options{Source: src})
	x.waitFor("exited")
	x.keys("\x03") // the key ctrl-c
	if err := x.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunReportsAFailingSource(t *testing.T) {
	boom := errors.New("the memory of PID 4242 can't be read any more")
	src := failing{Source: demosource.New(demosource.Options{Length: time.Second}), err: boom}
	x := newTerminal(t, t.Context(), scene.Options{Source: src})
	x.waitFor("memory")
	x.keys("q")
	if err := x.wait(); !errors.Is(err, boom) {
		t.Errorf("Run: %v", err)
	}
}

func TestRunSurvivesAPanicOfTheSource(t *testing.T) {
	src := failing{Source: demosource.New(demosource.Options{Length: time.Second}), panic: true}
	x := newTerminal(t, t.Context(), scene.Options{Source: src})
	x.waitFor("cheese")
	x.keys("q")
	if err := x.wait(); err == nil || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("Run: %v", err)
	}
}

// TestRunRestoresTheTerminalAfterAPanic: if the code of a view panics, Run restores the terminal's old settings.
func TestRunRestoresTheTerminalAfterAPanic(t *testing.T) {
	x := openTerminal(t)
	store, err := newStore(demosource.New(demosource.Options{}), scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { x.done <- show(t.Context(), panicking{m}, scene.Options{Input: x.slave, Output: x.slave}) }()
	x.waitFor("order-service")
	x.keys("x")
	if err := x.wait(); !errors.Is(err, tea.ErrProgramPanic) {
		t.Errorf("show: %v", err)
	}
}

// panicking is a screen that panics at the key x.
type panicking struct{ painted }

func (p panicking) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if k, ok := msg.(tea.KeyPressMsg); ok && k.String() == "x" {
		panic("a bug in a view")
	}
	_, cmd := p.painted.Update(msg)
	return p, cmd
}

// TestASlowTerminalDoesNotSlowTheSampling: even if the terminal accepts no output, ddtop continues to take samples.
func TestASlowTerminalDoesNotSlowTheSampling(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 100, Cols: 300}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src := &counting{Source: demosource.New(demosource.Options{Length: time.Hour, Realtime: true}), enough: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, scene.Options{Source: src, Input: slave, Output: slave, Repaint: scene.MinRepaint})
	}()
	select {
	case <-src.enough:
	case <-time.After(patience):
		t.Fatalf("%d samples while the terminal was stuck", src.n)
	}
	cancel() // as after a signal, the program ends although the terminal is still stuck
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the screen did not end: it waits for somebody to read it")
		master.Close()
		<-done
	}
}

// counting is a source that closes its channel enough after 3,000 samples. At 1 kHz these are 3 s.
type counting struct {
	*demosource.Source
	n      int
	enough chan struct{}
}

func (c *counting) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	return c.Source.Run(ctx, func(s *sampler.Sample) {
		emit(s)
		if c.n++; c.n == 3000 {
			close(c.enough)
		}
	})
}

func TestRunWithoutASource(t *testing.T) {
	if err := Run(t.Context(), scene.Options{}); !errors.Is(err, ErrNoSource) {
		t.Errorf("Run: %v", err)
	}
	if err := Run(t.Context(), scene.Options{Source: demosource.New(demosource.Options{}), Theme: "pink"}); err == nil || !strings.Contains(err.Error(), "high-contrast") {
		t.Errorf("Run: %v", err)
	}
}
