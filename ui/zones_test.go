package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/page/thread"
	"github.com/ddtop/ddtop/ui/page/threads"
	"github.com/ddtop/ddtop/ui/page/timeline"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// clickOn clicks on the middle of a text on the screen.
func (s *screen) clickOn(text string) {
	s.t.Helper()
	x, y := s.at(text)
	s.click(x+len([]rune(text))/2, y)
}

// still replaces the screen's clock by one that moves only if the test moves it. So two clicks are a double click,
// unless the test moves the clock between them.
func (s *screen) still() *time.Time {
	now := time.Unix(1000, 0)
	s.model.Scene.Now = func() time.Time { return now }
	return &now
}

func TestClickingThroughTheViews(t *testing.T) {
	s := hogged(t, 140, 40)
	s.press("2")
	for _, tb := range tabs(scene.Offers{})[1:] {
		s.clickOn(" " + tb.Key + " " + string(tb.ID))
		if s.model.Page != tb.ID {
			t.Errorf("page %s, not %s", s.model.Page, tb.ID)
		}
	}
	s.clickOn(" 1 live ")
	if s.model.Page != scene.PageLive {
		t.Error("not the live view")
	}
	s.clickOn("space freeze") // a key in the footer
	s.sees("FROZEN")
}

func TestClickingInTheTableOfThreads(t *testing.T) {
	s := hogged(t, 140, 40)
	now := s.still()
	s.press("2")
	p := s.model.pages[scene.PageThreads].(*threads.Page)
	for _, c := range []struct {
		head, by string
	}{{"  thread", "name"}, {"now ", "state"}, {"   p99", "waits p99"}} {
		*now = now.Add(time.Hour)
		s.clickOn(c.head)
		if p.Table.By != c.by || p.Table.Reverse {
			t.Errorf("%q sorts by %s, reversed %v", c.head, p.Table.By, p.Table.Reverse)
		}
	}
	s.clickOn("p99▼")
	if p.Table.By != "waits p99" || !p.Table.Reverse {
		t.Error("the same head does not turn the order round")
	}
	s.clickOn("▾ http ×8")
	if p.Table.Index() < 0 || s.model.Selected.Group == "" {
		t.Error("the group is not selected")
	}
	_, y := s.at("▾ http ×8")
	s.click(1, y)
	// the name may appear below the table
	if slices.ContainsFunc(p.Table.Rows, func(w *threads.TableRow) bool { return w.Name == "http-3" }) {
		t.Errorf("http-3 is still in the table:\n%s", s.text())
	}
	s.click(1, y)
	s.clickOn("http-3")
	if name, _ := p.Detail(&s.model.Scene); name != "http-3" || s.model.Page != scene.PageThreads {
		t.Errorf("%q is selected on page %s", name, s.model.Page)
	}
	*now = now.Add(doubleEach + time.Millisecond)
	s.clickOn("http-3")
	if s.model.Page != scene.PageThreads {
		t.Error("two slow clicks are a double click")
	}
	*now = now.Add(doubleEach)
	s.clickOn("http-3")
	if s.model.Page != scene.PageThread {
		t.Error("a double click does not open the thread")
	}
	frames := s.model.pages[scene.PageThread].(*thread.Page)
	last := frames.Frames.Rows[len(frames.Frames.Rows)-1].Frame
	s.clickOn(last.Label)
	if *frames.Frame() != last {
		t.Errorf("the frame is %+v", *frames.Frame())
	}
}

func TestClickingInTop(t *testing.T) {
	s := hogged(t, 140, 40)
	s.still()
	s.press("5")
	p := s.model.pages[scene.PageTop].(*top.Page)
	s.clickOn("  total")
	if widget.TopOrder(p.Table.By) != widget.ByTotal {
		t.Error("not by total")
	}
	s.clickOn(" blame ")
	if widget.TopOrder(p.Table.By) != widget.ByBlame {
		t.Error("not by blame")
	}
	s.clickOn("gems")
	s.sees("gems by blame")
	s.clickOn("functions")
	s.clickOn("Float#to_s")
	if p.Table.Cursor.Label != "Float#to_s" {
		t.Errorf("%+v", *p.Table.Cursor)
	}
	s.clickOn("Float#to_s") // a double click, because the clock stands still
	if s.model.Page != scene.PageLive || s.model.Flame.Search == nil {
		t.Error("a double click does not find it in the flamegraph")
	}
}

func TestClickingInLocks(t *testing.T) {
	s := hogged(t, 140, 40)
	s.press("6")
	p := s.model.pages[scene.PageLocks].(*locks.Page)
	if len(p.Locks.Rows) == 0 || len(p.Places) == 0 {
		t.Fatal("nothing to click on")
	}
	x, y := s.at(p.Places[1].String())
	s.click(x, y)
	if p.ByPlace.Cursor.Place != p.Places[1].Place {
		t.Errorf("%+v", *p.Both.Cursor)
	}
	_, y = s.at("taken at")
	s.click(20, y+1)
	if *p.Locks.Cursor != p.Locks.Rows[0].ID() {
		t.Errorf("%+v", *p.Both.Cursor)
	}
}

func TestClickingInTheFlamePage(t *testing.T) {
	s := hogged(t, 140, 24)
	s.press("4")
	s.clickOn("Server#handle")
	if n := s.model.Flame.SelNode; n == nil || n.Label != "Server#handle" {
		t.Errorf("%+v", n)
	}
	s.clickOn("Server#handle")
	s.sees("zoomed")
	rs := make(recordings) // a recording with deeper stacks
	rs.picture(t, "hog", scene.Options{}, 80, 24)
	m, err := NewModel(rs["hog"], scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s = &screen{t, m, rs["hog"]}
	s.resize(140, 15)
	s.press("4", "c")
	before := s.model.Flame.Top
	s.model.Update(tea.MouseWheelMsg{X: 5, Y: 10, Button: tea.MouseWheelDown})
	if s.model.Flame.Top != before+1 {
		t.Errorf("the wheel goes from row %d to %d, of %d in %d", before, s.model.Flame.Top, len(s.model.Flame.Picture.Rows), s.model.Flame.Height)
	}
}

func TestTheMouseOnTheTimelinePage(t *testing.T) {
	s := hogged(t, 140, 40)
	s.still()
	s.press("3")
	p := s.model.pages[scene.PageTimeline].(*timeline.Page)
	g := s.model.Regions
	_, y := s.at("http-4")
	s.click(g.CellsX+g.CellsW-30, y)
	s.sees("FROZEN")
	each := p.CellNS(&s.model.Scene)
	ago := func(columns int) int64 { // a cell can be wider than a column
		return int64(p.Timeline.Cells-widget.CellAt(g.CellsW-columns, p.Timeline.Cells, g.CellsW)) * each
	}
	if want := p.Span[1] - ago(30) + each/2; p.CursorNS != want || s.model.Timeline.Rows[s.model.Timeline.Index()].Name != "http-4" {
		t.Errorf("the cursor is at %d, want %d", p.CursorNS, want)
	}
	from, to := p.Span[1]-ago(20), p.Span[1]-ago(14)+each
	s.model.Update(tea.MouseClickMsg{X: g.CellsX + g.CellsW - 20, Y: y, Button: tea.MouseLeft})
	before := s.model.grid.String(true)
	s.model.Update(tea.MouseMotionMsg{X: g.CellsX + g.CellsW - 17, Y: y + 2, Button: tea.MouseLeft})
	if s.model.grid.String(true) == before {
		t.Error("what is being selected is not marked")
	}
	_, cmd := s.model.Update(tea.MouseReleaseMsg{X: g.CellsX + g.CellsW - 14, Y: y, Button: tea.MouseLeft})
	if s.model.AtNS != to || s.model.WindowNS != to-from {
		t.Errorf("%d ns until %d, want %d until %d", s.model.WindowNS, s.model.AtNS, to-from, to)
	}
	if cmd == nil {
		t.Error("the stretch of time is not read in fine columns")
	}
	s.press("space")
	s.sees("30s")
	if s.model.Frozen {
		t.Error("it is not live again")
	}
	window := s.model.WindowNS
	s.model.Update(tea.MouseWheelMsg{X: g.CellsX + 30, Y: y, Button: tea.MouseWheelUp})
	if s.model.WindowNS >= window {
		t.Error("the wheel does not zoom")
	}
	s.model.Update(tea.MouseWheelMsg{X: 2, Y: y, Button: tea.MouseWheelDown})
	if strings.Contains(s.model.message.Text, "zoom") || s.model.Timeline.Index() < 0 {
		t.Error("beside the axis it does not scroll")
	}
}

// TestClicksEverywhere: a click at any place of any view, at any size, does not panic. The screen is still drawn
// completely.
func TestClicksEverywhere(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 3 * time.Second, ExtraNames: hostileNames}, scene.Options{})
	for _, id := range pagesOfOne() {
		for _, size := range [][2]int{{60, 15}, {121, 40}} {
			s.resize(size[0], size[1])
			for x := -1; x <= size[0]; x += 17 {
				for y := -1; y <= size[1]; y += 3 {
					s.model.Open(id)
					s.click(x, y)
					s.click(x, y)
					s.model.over = widget.Overlay{}
				}
			}
			s.press("esc", "esc")
			checkRows(t, s, "clicked")
		}
	}
}
