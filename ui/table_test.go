package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/page/processes"
	"github.com/ddtop/ddtop/ui/page/threads"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestAColumnIsOneEntry: one entry in the list of columns is enough to add a column to the table of threads. The column
// then has a head, cells and a sort order. On narrow screens it has a short head, or is left out.
func TestAColumnIsOneEntry(t *testing.T) {
	with := func(width int) (*screen, *threads.Page) {
		s := hogged(t, width, 40)
		p := s.model.pages[scene.PageThreads].(*threads.Page)
		at := slices.IndexFunc(p.Table.Columns, func(c widget.Column[*threads.TableRow]) bool { return c.Title == "CPU" })
		p.Table.Columns = slices.Insert(p.Table.Columns, at, widget.Column[*threads.TableRow]{
			Title: "members", Short: "n", Width: widget.Wide(0, 80, 3, 120, 8), Right: true, Order: "members",
			Compare: func(x, y *threads.TableRow) int { return cmp.Compare(len(y.Members), len(x.Members)) },
			Text: func(w *threads.TableRow, m *scene.Scene) (string, canvas.Style) {
				return fmt.Sprint(len(w.Members)), m.Theme.Plain()
			},
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
	for p.Table.By != "members" {
		s.press(">")
	}
	s.sees("by members", "members▼")
	if got := len(p.Table.Rows[0].Members); got != 8 {
		t.Errorf("the first row has %d members", got)
	}
	s.clickOn("members▼")
	if got := len(p.Table.Rows[0].Members); got != 1 || !p.Table.Reverse {
		t.Errorf("after a click on its head the first row has %d members", got)
	}
	s, _ = with(90)
	s.sees("  n ")
	s.misses("members")
	s, _ = with(70)
	s.misses("  n ", "members")
}

// checkColumns fails the test unless each column has exactly one way to draw its cells. Each column with a sort order
// must also have a comparison.
func checkColumns[R any](t *testing.T, table string, columns []widget.Column[R]) {
	t.Helper()
	for i := range columns {
		c := &columns[i]
		if (c.Order == "") != (c.Compare == nil) || (c.Text == nil) == (c.Draw == nil) {
			t.Errorf("the column %q of %s: an order %q needs a compare, and either text or draw says what stands in it", c.Title, table, c.Order)
		}
	}
}

func TestColumnsAreWhole(t *testing.T) {
	pages := newPages(widget.NewParts(new(scene.Selection)))
	checkColumns(t, "threads", pages[scene.PageThreads].(*threads.Page).Table.Columns)
	checkColumns(t, "top", pages[scene.PageTop].(*top.Page).Table.Columns)
	checkColumns(t, "locks", pages[scene.PageLocks].(*locks.Page).Locks.Columns)
	checkColumns(t, "blame", pages[scene.PageLocks].(*locks.Page).ByPlace.Columns)
	processes := processes.New(nil)
	checkColumns(t, "processes", processes.Columns())
	checkColumns(t, "functions of all processes", processes.FunctionColumns())
}

// TestEveryListHasTheSameKeys: six views have a list. The keys for moving the cursor are the same in all of them.
func TestEveryListHasTheSameKeys(t *testing.T) {
	pages := newPages(widget.NewParts(new(scene.Selection)))
	for _, id := range []scene.PageID{scene.PageLive, scene.PageThreads, scene.PageThread, scene.PageTimeline, scene.PageTop, scene.PageLocks} {
		for _, key := range []tea.Key{{Code: tea.KeyUp}, {Code: tea.KeyDown}, {Code: tea.KeyPgUp}, {Code: tea.KeyPgDown}, {Code: tea.KeyHome},
			{Code: tea.KeyEnd}} {
			if pages[id].Keys(new(scene.Scene), false)[0].Find(key.String()) == nil {
				t.Errorf("%s: no %s", id, key)
			}
		}
	}
}
