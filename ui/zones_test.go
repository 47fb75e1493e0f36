package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// clickOn clicks in the middle of a text on the screen.
func (s *screen) clickOn(text string) {
	s.t.Helper()
	x, y := s.at(text)
	s.click(x+len([]rune(text))/2, y)
}

// still gives the screen a clock that stands unless it is moved: nothing is a double click by accident.
func (s *screen) still() *time.Time {
	now := time.Unix(1000, 0)
	s.model.now = func() time.Time { return now }
	return &now
}

func TestClickingThroughTheViews(t *testing.T) {
	s := hogged(t, 140, 40)
	s.press("2")
	for _, tb := range tabs(offers{})[1:] {
		s.clickOn(" " + tb.key + " " + string(tb.id) + " ")
		if s.model.page != tb.id {
			t.Errorf("page %s, not %s", s.model.page, tb.id)
		}
	}
	s.clickOn(" 1 live ")
	if s.model.page != pageLive {
		t.Error("not the live view")
	}
	s.clickOn("space freeze") // a key of the footer
	s.sees("FROZEN")
}

func TestClickingInTheTableOfThreads(t *testing.T) {
	s := hogged(t, 140, 40)
	now := s.still()
	s.press("2")
	p := s.model.pages[pageThreads].(*threadsPage)
	for _, c := range []struct {
		head, by string
	}{{"  thread", "name"}, {"now ", "state"}, {"   p99", "waits p99"}} {
		*now = now.Add(time.Hour)
		s.clickOn(c.head)
		if p.table.by != c.by || p.table.reverse {
			t.Errorf("%q sorts by %s, reversed %v", c.head, p.table.by, p.table.reverse)
		}
	}
	s.clickOn("p99▼")
	if p.table.by != "waits p99" || !p.table.reverse {
		t.Error("the same head does not turn the order round")
	}
	s.clickOn("▾ http ×8")
	if p.table.index() < 0 || s.model.selected.group == "" {
		t.Error("the group is not selected")
	}
	_, y := s.at("▾ http ×8")
	s.click(1, y)
	if slices.ContainsFunc(p.table.rows, func(w *tableRow) bool { return w.name == "http-3" }) { // under the table it is named
		t.Errorf("http-3 is still in the table:\n%s", s.text())
	}
	s.click(1, y)
	s.clickOn("http-3")
	if name, _ := p.detail(&s.model.scene); name != "http-3" || s.model.page != pageThreads {
		t.Errorf("%q is selected on page %s", name, s.model.page)
	}
	*now = now.Add(doubleEach + time.Millisecond)
	s.clickOn("http-3")
	if s.model.page != pageThreads {
		t.Error("two slow clicks are a double click")
	}
	*now = now.Add(doubleEach)
	s.clickOn("http-3")
	if s.model.page != pageThread {
		t.Error("a double click does not open the thread")
	}
	frames := s.model.pages[pageThread].(*threadPage)
	last := frames.frames.rows[len(frames.frames.rows)-1].Frame
	s.clickOn(last.Label)
	if *frames.frame() != last {
		t.Errorf("the frame is %+v", *frames.frame())
	}
}

func TestClickingInTop(t *testing.T) {
	s := hogged(t, 140, 40)
	s.still()
	s.press("5")
	p := s.model.pages[pageTop].(*topPage)
	s.clickOn("  total")
	if topOrder(p.table.by) != byTotal {
		t.Error("not by total")
	}
	s.clickOn(" blame ")
	if topOrder(p.table.by) != byBlame {
		t.Error("not by blame")
	}
	s.clickOn("gems")
	s.sees("gems by blame")
	s.clickOn("functions")
	s.clickOn("Float#to_s")
	if p.table.cursor.label != "Float#to_s" {
		t.Errorf("%+v", *p.table.cursor)
	}
	s.clickOn("Float#to_s") // the clock stands: a double click
	if s.model.page != pageLive || s.model.flame.search == nil {
		t.Error("a double click does not find it in the flamegraph")
	}
}

func TestClickingInLocks(t *testing.T) {
	s := hogged(t, 140, 40)
	s.press("6")
	p := s.model.pages[pageLocks].(*locksPage)
	if len(p.locks.rows) == 0 || len(p.places) == 0 {
		t.Fatal("nothing to click on")
	}
	x, y := s.at(p.places[1].String())
	s.click(x, y)
	if p.byPlace.cursor.place != p.places[1].Place {
		t.Errorf("%+v", *p.both.cursor)
	}
	_, y = s.at("where it is taken")
	s.click(20, y+1)
	if *p.locks.cursor != p.locks.rows[0].id() {
		t.Errorf("%+v", *p.both.cursor)
	}
}

func TestClickingInTheFlamePage(t *testing.T) {
	s := hogged(t, 140, 24)
	s.press("4")
	s.clickOn("Server#handle")
	if n := s.model.flame.selNode; n == nil || n.Label != "Server#handle" {
		t.Errorf("%+v", n)
	}
	s.clickOn("Server#handle")
	s.sees("zoomed")
	rs := make(recordings) // with deeper stacks
	rs.picture(t, "hog", Options{}, 80, 24)
	m, err := NewModel(rs["hog"], Options{})
	if err != nil {
		t.Fatal(err)
	}
	s = &screen{t, m, rs["hog"]}
	s.resize(140, 15)
	s.press("4", "c")
	before := s.model.flame.top
	s.model.Update(tea.MouseWheelMsg{X: 5, Y: 10, Button: tea.MouseWheelDown})
	if s.model.flame.top != before+1 {
		t.Errorf("the wheel goes from row %d to %d, of %d in %d", before, s.model.flame.top, len(s.model.flame.picture.Rows), s.model.flame.height)
	}
}

func TestTheMouseOnTheTimelinePage(t *testing.T) {
	s := hogged(t, 140, 40)
	s.still()
	s.press("3")
	p := s.model.pages[pageTimeline].(*timelinePage)
	g := s.model.regions
	_, y := s.at("http-4")
	s.click(g.cellsX+g.cellsW-30, y)
	s.sees("FROZEN")
	each := p.cellNS(&s.model.scene)
	if want := p.span[1] - 30*each + each/2; p.cursorNS != want || s.model.timeline.rows[s.model.timeline.index()].name != "http-4" {
		t.Errorf("the cursor is at %d, want %d", p.cursorNS, want)
	}
	from, to := p.span[1]-20*each, p.span[1]-13*each
	s.model.Update(tea.MouseClickMsg{X: g.cellsX + g.cellsW - 20, Y: y, Button: tea.MouseLeft})
	before := s.model.grid.String(true)
	s.model.Update(tea.MouseMotionMsg{X: g.cellsX + g.cellsW - 17, Y: y + 2, Button: tea.MouseLeft})
	if s.model.grid.String(true) == before {
		t.Error("what is being selected is not marked")
	}
	_, cmd := s.model.Update(tea.MouseReleaseMsg{X: g.cellsX + g.cellsW - 14, Y: y, Button: tea.MouseLeft})
	if s.model.atNS != to || s.model.windowNS != to-from {
		t.Errorf("%d ns until %d, want %d until %d", s.model.windowNS, s.model.atNS, to-from, to)
	}
	if cmd == nil {
		t.Error("the stretch of time is not read in fine columns")
	}
	s.press("space")
	s.sees("30s")
	if s.model.frozen {
		t.Error("it is not live again")
	}
	window := s.model.windowNS
	s.model.Update(tea.MouseWheelMsg{X: g.cellsX + 30, Y: y, Button: tea.MouseWheelUp})
	if s.model.windowNS >= window {
		t.Error("the wheel does not zoom")
	}
	s.model.Update(tea.MouseWheelMsg{X: 2, Y: y, Button: tea.MouseWheelDown})
	if strings.Contains(s.model.message.text, "zoom") || s.model.timeline.index() < 0 {
		t.Error("beside the axis it does not scroll")
	}
}

// TestClicksEverywhere: no place of any view is out of bounds, at no size, and the screen stays whole.
func TestClicksEverywhere(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 3 * time.Second, ExtraNames: hostileNames}, Options{})
	for _, id := range pagesOfOne() {
		for _, size := range [][2]int{{60, 15}, {121, 40}} {
			s.resize(size[0], size[1])
			for x := -1; x <= size[0]; x += 17 {
				for y := -1; y <= size[1]; y += 3 {
					s.model.Open(id)
					s.click(x, y)
					s.click(x, y)
					s.model.over = overlay{}
				}
			}
			s.press("esc", "esc")
			checkRows(t, s, "clicked")
		}
	}
}
