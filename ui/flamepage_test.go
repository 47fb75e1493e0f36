package ui

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/scene"
)

func TestFlamegraphOverTheWholeScreen(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("4", "down", "down")
	s.sees("4 flame", "wall time", "callers first", "Reports#loop")
	s.press("w")
	s.sees("CPU time")
	s.press("w", "w", "w")
	s.press("i")
	s.sees("callees first")
	f := &s.model.Flame
	for _, c := range f.Tree.Root.Children { // the innermost frames are at the root
		if c.Kind == flamegraph.FrameNode && c.Self == 0 && c.Total > 0 && len(c.Children) == 0 {
			t.Errorf("%s has time and neither of its own nor a caller", c.Label)
		}
	}
	f.SelectNode(f.Tree.Root.Children[0]) // the heaviest innermost frame, whose time is all its own
	s.model.Refresh()
	_, rest := f.Detail(s.model.Dict)
	if want := fmt.Sprintf("self %.1f %% ", 100*float64(f.SelNode.Total)/float64(f.Tree.Root.Total)); !strings.Contains(rest, want) || strings.Contains(rest, "total") {
		t.Errorf("what was executed has all of its time itself: %q, want %q", rest, want)
	}
	if s.press("down"); f.SelNode.Parent == f.Tree.Root {
		t.Fatal("no caller is selected")
	}
	if _, rest = f.Detail(s.model.Dict); strings.Contains(rest, "self") || !strings.Contains(rest, "total ") {
		t.Errorf("a caller has no time of its own there: %q", rest)
	}
	s.press("i")
	s.sees("callers first")
}

func TestHidingAndFocusing(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("4", "/")
	for _, r := range "Array#map" {
		s.press(string(r))
	}
	s.press("enter")
	total := s.model.Flame.Tree.Root.Total
	if s.model.Flame.SelNode == nil || s.model.Flame.SelNode.Label != "Array#map" {
		t.Fatal("the search selects Array#map")
	}
	share := s.model.Flame.Matches.Total
	s.press("X")
	s.sees("only with Array#map")
	if got := s.model.Flame.Tree.Root.Total; got != share {
		t.Errorf("%d in stacks with Array#map, the search said %d", got, share)
	}
	s.press("esc")
	s.misses("only with")
	s.press("n", "x")
	s.sees("1 function hidden")
	if got := s.model.Flame.Tree.Root.Total; got != total {
		t.Errorf("hiding a function loses time: %d of %d", got, total)
	}
	if n := s.model.Flame.Matches.Total; n != 0 {
		t.Errorf("the hidden function is still found, with %d", n)
	}
	s.press("esc")
	if n := s.model.Flame.Matches.Total; n != share {
		t.Errorf("shown again it has %d, before %d", n, share)
	}
}

func TestComparing(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("}", "}", "4", "=") // the window is 5 s
	s.sees("compared with", "go to another time")
	for range 150 {
		s.press("[")
	}
	f := &s.model.Flame
	if f.Base == nil || len(f.Changes) == 0 {
		t.Fatal("nothing is compared")
	}
	s.sees("change of own time, in percentage points:")
	var generate float64
	for _, c := range f.Changes {
		if strings.HasPrefix(c.Label, "JSON::Ext::Generator") {
			generate = c.Share
		}
	}
	if generate > -0.05 {
		t.Errorf("the hog is missing in the time before it began, and its function changed by %v", generate)
	}
	var sum float64
	for _, n := range f.Tree.Root.Children {
		sum += f.Diff[n]
	}
	if math.IsNaN(sum) || sum < -1e-6 {
		t.Errorf("the parts that are there now shrank by %v on the whole", sum)
	}
	s.press("=")
	s.misses("change of own time", "compared with 5")
}

// TestFlames: the key f turns the flamegraph upside down: callers are drawn below the functions that they call. The
// arrow keys and clicks then follow the new directions.
func TestFlames(t *testing.T) {
	for _, page := range []string{"1", "4"} {
		s := hogged(t, 120, 40)
		s.press(page)
		if page == "1" {
			s.press("tab")
		}
		_, outer := s.at("Server#handle ")
		_, inner := s.at("OrdersController#show ")
		if inner != outer+1 {
			t.Fatalf("rows %d and %d", outer, inner)
		}
		s.press("f")
		_, outer = s.at("Server#handle ")
		_, inner = s.at("OrdersController#show ")
		if inner != outer-1 {
			t.Errorf("view %s: rows %d and %d", page, outer, inner)
		}
		s.clickOn("Server#handle ")
		s.press("up")
		if n := s.model.Flame.SelNode; n == nil || n.Label != "OrdersController#show" {
			t.Errorf("view %s: up selects %+v", page, n)
		}
		s.press("down", "down")
		if n := s.model.Flame.SelNode; n == nil || n.Label == "Server#handle" || n.Label == "OrdersController#show" {
			t.Errorf("view %s: down selects %+v", page, n)
		}
		s.press("f")
		_, outer = s.at("Server#handle ")
		_, inner = s.at("OrdersController#show ")
		if inner != outer+1 {
			t.Errorf("view %s: not icicles again", page)
		}
	}
}

// TestFlamesScroll: an upside-down flamegraph may be higher than the screen. The screen then first shows the bottom,
// with the root. The mouse wheel scrolls up.
func TestFlamesScroll(t *testing.T) {
	rs := make(recordings)
	rs.picture(t, "hog", scene.Options{}, 80, 24)
	m, err := NewModel(rs["hog"], scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t, m, rs["hog"]}
	s.resize(120, 15)
	s.press("4", "c", "f")
	f := &m.Flame
	rows := len(f.Picture.Rows)
	if f.Top != 0 || rows <= f.Height {
		t.Fatalf("%d rows in %d, from %d", rows, f.Height, f.Top)
	}
	s.sees("▲ ")
	for range rows {
		m.Update(tea.MouseWheelMsg{X: 5, Y: 10, Button: tea.MouseWheelUp})
	}
	if f.Top != rows-f.Height {
		t.Errorf("the wheel scrolls to %d of %d", f.Top, rows-f.Height)
	}
	s.sees(" ▼ ")
	s.press("home")
	depth := f.SelNode.Depth
	s.press("pgup")
	if f.SelNode == nil || f.SelNode.Depth <= depth {
		t.Error("a page up does not go inward")
	}
}

// TestComparingWithTheTimeBeforeAMark: the user has set a mark. The first press of the key = compares with the time
// before the mark. The second press compares with the time that is shown now. The third press ends the comparison.
func TestComparingWithTheTimeBeforeAMark(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("4", "}", "}")
	span := s.model.WindowNS
	for s.model.AtNS > s.model.OldestNS+9e9 { // the hog begins after 10 s
		s.press("[")
	}
	at := s.model.AtNS
	s.press("m")
	s.typed("deploy")
	s.press("enter", "space", "=")
	f := &s.model.Flame
	s.sees(`compared with 5s before "deploy"`, "change of own time, in percentage points:")
	const slot = int64(time.Second) // weights are kept in slots of one second
	if f.Base == nil || f.Base.ToNS > at+slot || f.Base.FromNS < at-span-slot {
		t.Fatalf("the base is not the time before %d", at)
	}
	var generate float64
	for _, c := range f.Changes {
		if strings.HasPrefix(c.Label, "JSON::Ext::Generator") {
			generate = c.Share
		}
	}
	if generate < 0.05 {
		t.Errorf("the hog's function grew by %v since the mark", generate)
	}
	s.press("=")
	s.sees("compared with 5s until")
	s.press("=")
	s.misses("compared with 5s", "change of own time")
	for s.model.AtNS > at-2e9 { // go back to a moment before the mark: then there is no mark to compare with
		s.press("[")
	}
	s.press("=")
	s.sees("compared with 5s until")
}
