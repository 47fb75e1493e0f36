package ui

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// at returns the column and the row of a text on the screen.
func (s *screen) at(text string) (x, y int) {
	s.t.Helper()
	g := &s.model.grid
	want := []rune(text)
	for y := range g.H {
	next:
		for x := 0; x+len(want) <= g.W; x++ {
			for i, r := range want {
				if g.At(x+i, y).Rune != r {
					continue next
				}
			}
			return x, y
		}
	}
	s.t.Fatalf("no %q:\n%s", text, s.text())
	return 0, 0
}

func (s *screen) click(x, y int) {
	s.model.Update(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft})
	s.model.Update(tea.MouseReleaseMsg{X: x, Y: y, Button: tea.MouseLeft})
}

func TestClickingSelects(t *testing.T) {
	s := hogged(t, 120, 40)
	x, y := s.at("http-2 ")
	s.click(x, y)
	if got := s.model.Selected; got.Thread == 0 || s.line("▌") == "" {
		t.Errorf("%+v is selected", got)
	}
	s.sees("http-2   ")
	if d, _ := s.model.Timeline.Detail(&s.model.Scene); d != "http-2" {
		t.Errorf("%q is described", d)
	}
	x, y = s.at("Server#handle")
	if y < s.model.Regions.Flame {
		t.Fatal("Server#handle is not in the flamegraph alone")
	}
	s.click(x+2, y)
	if n := s.model.Flame.SelNode; s.model.Focus != scene.OnFlame || n == nil || n.Label != "Server#handle" {
		t.Errorf("selected is %+v", n)
	}
	_, y = s.at("▾ http ×8")
	s.click(1, y)
	s.misses("http-2 ")
	s.click(1, y)
	s.sees("http-2 ")
	for x := -1; x <= 120; x += 11 { // clicks outside of the screen do no harm
		for y := -1; y <= 40; y += 3 {
			s.click(x, y)
			s.model.Update(tea.MouseWheelMsg{X: x, Y: y, Button: tea.MouseWheelDown})
		}
	}
}

func TestDraggingShowsAStretchOfTime(t *testing.T) {
	s := hogged(t, 120, 40)
	r := s.model.Regions
	v := &s.model.Timeline
	each := (v.ToNS - v.FromNS) / int64(v.Cells)
	from, to := v.FromNS, v.ToNS
	x0, x1, y := r.CellsX+r.CellsW-20, r.CellsX+r.CellsW-11, r.Rows+1
	s.model.Update(tea.MouseClickMsg{X: x1, Y: y, Button: tea.MouseLeft}) // drag from right to left
	before := s.model.grid.String(true)
	s.model.Update(tea.MouseMotionMsg{X: x0 + 3, Y: y + 1, Button: tea.MouseLeft})
	if s.model.grid.String(true) == before {
		t.Error("what is being selected is not marked")
	}
	s.model.Update(tea.MouseReleaseMsg{X: x0, Y: y + 30, Button: tea.MouseLeft})
	s.sees("FROZEN")
	if s.model.WindowNS != 10*each || s.model.AtNS != to-10*each || s.model.AtNS-s.model.WindowNS < from {
		t.Errorf("%d ns until %d, want %d until %d", s.model.WindowNS, s.model.AtNS, 10*each, to-10*each)
	}
	s.press("space")
	s.sees("LIVE", "30s")
	s.click(x0, y)
	s.sees("LIVE")
}

// TestADragSelectsNoThread: a click on a thread's row selects the thread, and the flamegraph then shows only this
// thread. A drag over the timeline must not select a thread, because it selects a time span for all threads.
func TestADragSelectsNoThread(t *testing.T) {
	s := hogged(t, 120, 40)
	r := s.model.Regions
	press := func(x, y int) { s.model.Update(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft}) }
	press(r.CellsX+5, r.Rows+1)
	s.model.Update(tea.MouseReleaseMsg{X: r.CellsX + 5, Y: r.Rows + 1, Button: tea.MouseLeft})
	s.sees("only http-1")
	s.press("esc")
	press(r.CellsX+5, r.Rows+2)
	s.model.Update(tea.MouseMotionMsg{X: r.CellsX + 15, Y: r.Rows + 2, Button: tea.MouseLeft})
	s.sees("all threads")
	s.model.Update(tea.MouseReleaseMsg{X: r.CellsX + 15, Y: r.Rows + 2, Button: tea.MouseLeft})
	s.sees("FROZEN", "all threads")
}

func TestTheWheel(t *testing.T) {
	s := hogged(t, 120, 40)
	r := s.model.Regions
	wheel := func(x, y int, b tea.MouseButton) { s.model.Update(tea.MouseWheelMsg{X: x, Y: y, Button: b}) }
	wheel(r.CellsX+5, r.Rows, tea.MouseWheelUp)
	if s.model.WindowNS != int64(10*time.Second) {
		t.Errorf("%d ns", s.model.WindowNS)
	}
	wheel(r.CellsX+5, r.Rows, tea.MouseWheelDown)
	wheel(2, r.Rows, tea.MouseWheelDown)
	if s.model.WindowNS != int64(30*time.Second) || s.model.Timeline.Index() != 0 {
		t.Errorf("%d ns, row %d", s.model.WindowNS, s.model.Timeline.Index())
	}
	s = newScreen(t, 80, 17, demosource.Options{Length: 30 * time.Second}, scene.Options{})
	r = s.model.Regions
	wheel(2, r.Flame+1, tea.MouseWheelDown)
	if s.model.Flame.Top != 1 {
		t.Errorf("the flamegraph begins at %d", s.model.Flame.Top)
	}
	s.press("?")
	wheel(2, 2, tea.MouseWheelDown)
	if s.model.over.Scroll != 1 {
		t.Error("the help does not scroll")
	}
}

// TestMovementsAreFew: if the mouse moves many times in a short time, most of the movements are dropped. Presses and
// releases of a button are never dropped.
func TestMovementsAreFew(t *testing.T) {
	now := time.Unix(1000, 0)
	filter := mouseFilter(func() time.Time { return now })
	passed := 0
	for range 1000 { // a second of a fast trackpad
		now = now.Add(time.Millisecond)
		if filter(nil, tea.MouseMotionMsg{}) != nil {
			passed++
		}
		if filter(nil, tea.MouseClickMsg{}) == nil || filter(nil, tea.MouseReleaseMsg{}) == nil || filter(nil, keyPress("q")) == nil {
			t.Fatal("a press is lost")
		}
	}
	if passed < 60 || passed > 67 {
		t.Errorf("%d movements", passed)
	}
	now = now.Add(-time.Hour) // the clock is set back
	if filter(nil, tea.MouseWheelMsg{}) == nil {
		t.Error("a clock that was set back stops the wheel")
	}
}

func TestTheMouseCanBeLeftToTheTerminal(t *testing.T) {
	for _, no := range []bool{false, true} {
		s := newScreen(t, 120, 40, demosource.Options{Length: time.Second}, scene.Options{NoMouse: no})
		if got := s.model.View().MouseMode != tea.MouseModeNone; got == no {
			t.Errorf("NoMouse %v: %v", no, got)
		}
	}
}
