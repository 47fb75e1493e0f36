package ui

import "testing"

// TestASelectedThreadHasACursorInTheTable: what was selected in another view has the cursor in view 2: its group is open, or, closed
// by hand, stands for it.
func TestASelectedThreadHasACursorInTheTable(t *testing.T) {
	s := hogged(t, 120, 24) // too low for the members of groups
	s.model.selected.thread = 2
	s.press("2")
	p := s.model.pages[pageThreads].(*threadsPage)
	if i := p.table.index(); i < 0 || p.table.rows[i].name != "http-1" {
		t.Errorf("the cursor is in row %d:\n%s", i, s.text())
	}
	s.press("left")
	s.model.selected = rowKey{thread: 2}
	s.press("1", "2")
	if i := p.table.index(); i < 0 || !p.table.rows[i].isGroup || p.table.rows[i].open {
		t.Errorf("the cursor is in row %d:\n%s", i, s.text())
	}
}
