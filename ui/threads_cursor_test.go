package ui

import (
	"testing"

	"github.com/ddtop/ddtop/ui/page/threads"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestASelectedThreadHasACursorInTheTable: the user selects a thread in another view. View 2 (the table of threads)
// then opens the thread's group and puts the cursor on the thread. If the user has closed the group before, the cursor
// is on the group.
func TestASelectedThreadHasACursorInTheTable(t *testing.T) {
	s := hogged(t, 120, 24) // this screen has no room for the members of groups
	s.model.Selected.Thread = 2
	s.press("2")
	p := s.model.pages[scene.PageThreads].(*threads.Page)
	if i := p.Table.Index(); i < 0 || p.Table.Rows[i].Name != "http-1" {
		t.Errorf("the cursor is in row %d:\n%s", i, s.text())
	}
	s.press("left")
	s.model.Selected = scene.RowKey{Thread: 2}
	s.press("1", "2")
	if i := p.Table.Index(); i < 0 || !p.Table.Rows[i].IsGroup || p.Table.Rows[i].Open {
		t.Errorf("the cursor is in row %d:\n%s", i, s.text())
	}
}
