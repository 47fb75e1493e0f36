package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// TestAColumnIsOneEntry: a column of the table of threads that is added as an entry has its head, its cells and its order, and goes
// where there is no room for it.
func TestAColumnIsOneEntry(t *testing.T) {
	with := func(width int) (*screen, *threadsPage) {
		s := hogged(t, width, 40)
		p := s.model.pages[pageThreads].(*threadsPage)
		at := slices.IndexFunc(p.table.columns, func(c column[*tableRow]) bool { return c.title == "CPU" })
		p.table.columns = slices.Insert(p.table.columns, at, column[*tableRow]{
			title: "members", short: "n", width: wide(0, 80, 3, 120, 8), right: true, order: "members",
			compare: func(x, y *tableRow) int { return cmp.Compare(len(y.members), len(x.members)) },
			text:    func(w *tableRow, m *scene) (string, canvas.Style) { return fmt.Sprint(len(w.members)), m.Theme.Plain() },
		})
		s.press("2")
		return s, p
	}
	s, p := with(120)
	s.sees(" members ")
	if l := s.line("http ×8 "); !strings.Contains(l, " 8 ") {
		t.Errorf("no cell: %s", l)
	}
	x, _ := s.at("members")
	if l := []rune(s.line("http ×8 ")); l[x+len("members")-1] != '8' {
		t.Errorf("the cell does not end under its head: %s", string(l))
	}
	for p.table.by != "members" {
		s.press(">")
	}
	s.sees("by members", "members▼")
	if got := len(p.table.rows[0].members); got != 8 {
		t.Errorf("the first row has %d members", got)
	}
	s.clickOn("members▼")
	if got := len(p.table.rows[0].members); got != 1 || !p.table.reverse {
		t.Errorf("after a click on its head the first row has %d members", got)
	}
	s, _ = with(90)
	s.sees("  n ")
	s.misses("members")
	s, _ = with(70)
	s.misses("  n ", "members")
}

// checkColumns: an order has its comparison, and a cell one way to be drawn.
func checkColumns[R any](t *testing.T, table string, columns []column[R]) {
	t.Helper()
	for i := range columns {
		c := &columns[i]
		if (c.order == "") != (c.compare == nil) || (c.text == nil) == (c.draw == nil) {
			t.Errorf("the column %q of %s: an order %q needs a compare, and either text or draw says what stands in it", c.title, table, c.order)
		}
	}
}

func TestColumnsAreWhole(t *testing.T) {
	pages := newPages(newComponents(new(selection)))
	checkColumns(t, "threads", pages[pageThreads].(*threadsPage).table.columns)
	checkColumns(t, "top", pages[pageTop].(*topPage).table.columns)
	checkColumns(t, "locks", pages[pageLocks].(*locksPage).locks.columns)
	checkColumns(t, "blame", pages[pageLocks].(*locksPage).byPlace.columns)
	processes := newProcessesPage(nil)
	checkColumns(t, "processes", processes.columns())
	checkColumns(t, "functions of all processes", processes.functionColumns())
}

// letter is a row of the lists below.
type letter rune

func (r letter) id() string { return string(r) }

// TestColumnsShareTheScreen: what the columns leave goes to those that ask for it; what is least needed goes for it.
func TestColumnsShareTheScreen(t *testing.T) {
	tb := table[letter, string]{left: 3, right: 1, columns: []column[letter]{
		{width: wide(10, 100, 20), widens: func(s *scene) bool { return s.presenting }},
		{width: wide(5), drop: 2}, {width: wide(6, 100, 8), drop: 1}, {width: wide(rest), least: 12}}}
	for _, c := range []struct {
		screen int
		widens bool
		want   string
	}{
		{60, false, "[10 5 6 32]"}, {60, true, "[26 5 6 16]"}, {100, false, "[20 5 8 60]"},
		{40, false, "[10 5 6 12]"}, {39, false, "[10 5 0 18]"}, {32, false, "[10 0 0 17]"}, {26, false, "[10 0 0 0]"},
	} {
		if got := fmt.Sprint(tb.fit(c.screen, &scene{presenting: c.widens})); got != c.want {
			t.Errorf("%d columns: %s, want %s", c.screen, got, c.want)
		}
	}
}

// TestCursorStaysOnItsRow: in another order, while the row is gone, and when it is back.
func TestCursorStaysOnItsRow(t *testing.T) {
	l := list[letter, string]{cursor: new(string)}
	at := func(want string) {
		t.Helper()
		got := ""
		if i := l.index(); i >= 0 {
			got = l.rows[i].id()
		}
		if got != want {
			t.Errorf("the cursor is on %q of %s, not on %q", got, string(l.rows), want)
		}
	}
	l.move(step{rows: +1}) // nothing is listed
	l.rows = []letter("abcdefgh")
	at("")
	l.move(step{rows: +1})
	at("a")
	l.reset()
	l.move(step{rows: -1})
	at("h")
	l.scroll(4)
	if l.hidden() != " ▲4 " {
		t.Errorf("hidden: %q", l.hidden())
	}
	l.move(step{screens: -1})
	at("e")
	l.move(step{rows: -maxRows})
	l.move(step{rows: +2})
	at("c")
	if got := string(l.scroll(4)); got != "cdef" || l.hidden() != " ▲2 ▼2 " {
		t.Errorf("%s, hidden %q", got, l.hidden())
	}
	slices.Reverse(l.rows)
	at("c")
	if got := string(l.scroll(4)); got != "fedc" {
		t.Errorf("on the screen: %s", got)
	}
	l.rows = []letter("hgfedba")
	at("")
	l.scroll(4)
	l.rows = []letter("hgfedcba")
	at("c")
	l.rows = []letter("hgfedba")
	l.move(step{rows: +1})
	at("b")
	l.rows = []letter("hgf")
	l.settle()
	at("f")
}

// TestEveryListHasTheSameKeys: the keys that move a cursor, and the wheel, do it in each view with a list.
func TestEveryListHasTheSameKeys(t *testing.T) {
	pages := newPages(newComponents(new(selection)))
	for _, id := range []pageID{pageLive, pageThreads, pageThread, pageTimeline, pageTop, pageLocks} {
		for _, key := range []tea.Key{{Code: tea.KeyUp}, {Code: tea.KeyDown}, {Code: tea.KeyPgUp}, {Code: tea.KeyPgDown}, {Code: tea.KeyHome},
			{Code: tea.KeyEnd}} {
			if pages[id].keys(new(scene), false)[0].find(key.String()) == nil {
				t.Errorf("%s: no %s", id, key)
			}
		}
	}
}
