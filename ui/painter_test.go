package ui

import (
	"bytes"
	"image/color"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// writes imitates a terminal. It remembers each write.
type writes []string

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, string(b))
	return len(b), nil
}

// took returns what was written to the terminal since the last call.
func (w *writes) took() []string {
	out := *w
	*w = nil
	return out
}

// TestPicturesAreWrittenOnce: while the program controls the terminal, the painter writes each new picture at once, and
// only once.
func TestPicturesAreWrittenOnce(t *testing.T) {
	var out writes
	s := newScreen(t, 120, 40, demosource.Options{Length: 5 * time.Second}, scene.Options{})
	_, p := newProgram(t.Context(), s.model, &out)
	m := &painting{painted: s.model, p: p}
	wrote := func(when string, want ...string) {
		t.Helper()
		p.show()
		got := out.took()
		if len(got) != len(want) {
			t.Fatalf("%s: %d writes, want %d: %q", when, len(got), len(want), got)
		}
		for i, w := range want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s: %q is not in %q", when, w, got[i])
			}
		}
	}
	wrote("before the first picture")
	m.View()
	wrote("before it is known which colours the terminal has")
	m.Update(tea.ColorProfileMsg{Profile: 5})
	m.View()
	wrote("the first picture", enterScreen, "order-service")
	wrote("nothing new")
	m.Update(overwriteMsg{})
	wrote("the whole screen again", "order-service")
	for range 3 {
		m.Update(tickMsg(time.Now()))
		m.View()
	}
	wrote("ticks without a sample")
	m.Update(keyPress("?"))
	m.View()
	wrote("a key", "signs")
	m.Update(keyPress("?"))
	m.View()
	out.took()
	p.show()
	out.took()

	bubbleTea := func(s string) {
		t.Helper()
		if n, err := p.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	bubbleTea("\x1b]11;?\a")
	wrote("a question", "\x1b]11;?\a")
	bubbleTea("\x1b[?1049h\x1b[?2004h\x1b[H\x1b[2J")
	wrote("Bubble Tea enters the screen", "\x1b[?2004h\x1b[H", "order-service")
	bubbleTea("\x1b[?1049l")
	m.Update(keyPress("?"))
	m.View()
	wrote("suspended", "\x1b[?1049l")
	bubbleTea("\x1b[?1049h")
	wrote("continued", "\x1b[?1049h", "signs")
	m.Update(tea.ModeReportMsg{Mode: ansi.ModeSynchronizedOutput, Value: ansi.ModeReset})
	m.Update(keyPress("?"))
	m.View()
	wrote("at once", "\x1b[?2026h")
	p.leave()
	p.leave()
	m.Update(keyPress("?"))
	m.View()
	wrote("the end", leaveScreen)
}

// TestTheTimeAxisMoves: each new sample moves the time axis, so cells on the terminal must change.
func TestTheTimeAxisMoves(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 31 * time.Second}, scene.Options{})
	var grid canvas.Grid
	var terminal canvas.Terminal
	x := record(t, demosource.Options{Length: 100 * time.Millisecond})[0]
	for range 3 {
		grid.Copy(&s.model.grid)
		terminal.Update(&grid)
		from, to := s.model.FromNS, s.model.ToNS
		x.TimeNS = newestNS(s.store) + int64(time.Second)
		s.store.Feed(x)
		s.model.Update(tickMsg(time.Now()))
		if s.model.FromNS <= from || s.model.ToNS <= to {
			t.Fatalf("after a second the axis is at %d to %d, before at %d to %d", s.model.FromNS, s.model.ToNS, from, to)
		}
		if b := terminal.Update(&s.model.grid); !bytes.Contains(b, []byte("\x1b[")) {
			t.Errorf("nothing is written: %q", b)
		}
	}
}

// TestFirstPicturesComeFast: at the start the pauses between pictures are short. Within 2 s they grow to the configured
// length.
func TestFirstPicturesComeFast(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 5 * time.Second}, scene.Options{})
	m := s.model
	var sum time.Duration
	for range 20 {
		m.tick()
		if sum += m.pace; m.pace == m.Opt.Repaint {
			break
		}
	}
	if m.pace != m.Opt.Repaint || sum > 2*time.Second {
		t.Errorf("after %v a tick is %v", sum, m.pace)
	}
}

// TestFirstSampleWakesScreen: the first sample ends the pause after the first picture, however long this pause is.
func TestFirstSampleWakesScreen(t *testing.T) {
	src := demosource.New(demosource.Options{Length: time.Second})
	store, err := newStore(src, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{Repaint: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	m.pace = time.Hour
	synctest.Test(t, func(t *testing.T) {
		store.Stirred = make(chan struct{}, 1)
		ticked := make(chan tea.Msg, 1)
		cmd, began := m.tick(), time.Now()
		go func() { ticked <- cmd() }()
		synctest.Wait()
		store.Feed(record(t, demosource.Options{Length: 100 * time.Millisecond})[0])
		m.Update(<-ticked)
		if waited := time.Since(began); waited != 0 || m.LastNS == 0 {
			t.Errorf("the first sample is shown after %v, newest sample %d", waited, m.LastNS)
		}
	})
}

// TestPaintingKeepsPace: the painter writes the second picture without a pause. Before each later picture it waits
// until leastBetween has passed.
func TestPaintingKeepsPace(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: time.Second}, scene.Options{})
	synctest.Test(t, func(t *testing.T) {
		out := make(moments, 10)
		_, p := newProgram(t.Context(), s.model, out)
		p.profiled, p.entered = true, true
		p.wake = make(chan struct{}, 1)
		done, ended := make(chan struct{}), make(chan error)
		go func() { ended <- p.paintUntil(done) }()
		began := time.Now()
		for i, want := range []time.Duration{0, 0, leastBetween, 2 * leastBetween} {
			s.model.grid.Area().Put(0, 0, strconv.Itoa(i), canvas.Style{})
			p.paint(&s.model.grid)
			if at := (<-out).Sub(began); at != want {
				t.Errorf("picture %d was written after %v, want %v", i, at, want)
			}
		}
		close(done)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// moments imitates a terminal. It reports the time of each write.
type moments chan time.Time

func (m moments) Write(b []byte) (int, error) {
	m <- time.Now()
	return len(b), nil
}

// TestPaintingPanics: Bubble Tea cannot catch a panic in the goroutine that writes pictures, because it did not start
// this goroutine. So paintUntil must catch it, and return an error with the place of the panic.
func TestPaintingPanics(t *testing.T) {
	var out writes
	s := newScreen(t, 120, 40, demosource.Options{Length: time.Second}, scene.Options{})
	_, p := newProgram(t.Context(), s.model, &out)
	bad := func(color.Color) color.Color { panic("a bad colour") }
	p.colors, p.profiled = &bad, true
	p.paint(&s.model.grid)
	if err := p.paintUntil(nil); err == nil || !strings.Contains(err.Error(), "a bad colour") || !strings.Contains(err.Error(), "painter.go") {
		t.Errorf("it says %v", err)
	}
	p.leave() // after the panic the terminal can still be restored
	if got := strings.Join(out.took(), ""); !strings.Contains(got, leaveScreen) {
		t.Errorf("%q was written", got)
	}
}
