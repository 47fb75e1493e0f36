package widget

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/ui/scene"
)

// letter is a row of the lists and tables in these tests.
type letter rune

func (r letter) ID() string { return string(r) }

// TestColumnsShareTheScreen: columns that can become wider share the free room of the screen. If there is too little
// room, the least important columns are left out first.
func TestColumnsShareTheScreen(t *testing.T) {
	tb := Table[letter, string]{Left: 3, Right: 1, Columns: []Column[letter]{
		{Width: Wide(10, 100, 20), Widens: func(s *scene.Scene) bool { return s.Presenting }},
		{Width: Wide(5), Drop: 2}, {Width: Wide(6, 100, 8), Drop: 1}, {Width: Wide(Rest), Least: 12}}}
	for _, c := range []struct {
		screen int
		widens bool
		want   string
	}{
		{60, false, "[10 5 6 32]"}, {60, true, "[26 5 6 16]"}, {100, false, "[20 5 8 60]"},
		{40, false, "[10 5 6 12]"}, {39, false, "[10 5 0 18]"}, {32, false, "[10 0 0 17]"}, {26, false, "[10 0 0 0]"},
	} {
		if got := fmt.Sprint(tb.Fit(c.screen, &scene.Scene{Presenting: c.widens})); got != c.want {
			t.Errorf("%d columns: %s, want %s", c.screen, got, c.want)
		}
	}
}

// TestCursorStaysOnItsRow: the cursor must stay on its row when the rows are sorted in another order. If the row
// disappears and comes back, the cursor must be on it again.
func TestCursorStaysOnItsRow(t *testing.T) {
	l := List[letter, string]{Cursor: new(string)}
	at := func(want string) {
		t.Helper()
		got := ""
		if i := l.Index(); i >= 0 {
			got = l.Rows[i].ID()
		}
		if got != want {
			t.Errorf("the cursor is on %q of %s, not on %q", got, string(l.Rows), want)
		}
	}
	l.Move(Step{Rows: +1}) // move the cursor in an empty list
	l.Rows = []letter("abcdefgh")
	at("")
	l.Move(Step{Rows: +1})
	at("a")
	l.Reset()
	l.Move(Step{Rows: -1})
	at("h")
	l.Scroll(4)
	if l.Hidden() != " ▲4 " {
		t.Errorf("hidden: %q", l.Hidden())
	}
	l.Move(Step{Screens: -1})
	at("e")
	l.Move(Step{Rows: -scene.MaxRows})
	l.Move(Step{Rows: +2})
	at("c")
	if got := string(l.Scroll(4)); got != "cdef" || l.Hidden() != " ▲2 ▼2 " {
		t.Errorf("%s, hidden %q", got, l.Hidden())
	}
	slices.Reverse(l.Rows)
	at("c")
	if got := string(l.Scroll(4)); got != "fedc" {
		t.Errorf("on the screen: %s", got)
	}
	l.Rows = []letter("hgfedba")
	at("")
	l.Scroll(4)
	l.Rows = []letter("hgfedcba")
	at("c")
	l.Rows = []letter("hgfedba")
	l.Move(Step{Rows: +1})
	at("b")
	l.Rows = []letter("hgf")
	l.Settle()
	at("f")
}
