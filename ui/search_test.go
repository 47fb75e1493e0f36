package ui

import (
	"regexp"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
)

// search types a text into the search line of the screen, and presses enter.
func (s *screen) search(text string) {
	s.press("/")
	for _, r := range text {
		s.press(string(r))
	}
	s.press("enter")
}

// TestSearchListsTheThreadsThatMatch: in every view with threads, a search leaves only the threads whose names match.
// Esc shows all threads again.
func TestSearchListsTheThreadsThatMatch(t *testing.T) {
	for _, view := range []string{"1", "2", "3"} {
		for _, size := range screenSizes {
			s := hogged(t, size[0], size[1])
			s.press(view)
			s.search("worker-[13]")
			if n := s.model.Threads.Listed(); n != 2 {
				t.Errorf("view %s: %d threads are listed", view, n)
			}
			s.sees("2 of 15", "worker")
			if rows := s.model.Timeline.Rows; view == "1" && slices.ContainsFunc(rows, func(w scene.Row) bool { return w.Name == "main" }) {
				t.Errorf("main is listed: %+v", rows)
			}
			if view == "2" {
				s.misses("cache-refresher ", "http ×")
			}
			s.press("esc")
			s.press("esc")
			s.misses("2 of 15")
			s.sees("15 threads")
		}
	}
}

// TestSearchListsTheThreadsThatRanIt: if the user searches for a function, the table lists the threads that ran this
// function.
func TestSearchListsTheThreadsThatRanIt(t *testing.T) {
	s := hogged(t, 120, 40)
	s.search("Metrics#flush")
	m := s.model
	for i := range m.Threads {
		if got := !m.Threads[i].LeftOut; got != (m.Threads[i].Name == "metrics") {
			t.Errorf("%s is listed: %v", m.Threads[i].Name, got)
		}
	}
	roots := m.Timeline.Roots()
	if len(roots) != len(m.Threads) {
		t.Errorf("%d of %d threads have a name in the flamegraph", len(roots), len(m.Threads))
	}
	s.press("2", "n")
	if m.Selected.Thread == 0 {
		t.Error("n selects nothing")
	}
	s.press("esc", "N")
	s.sees("nothing is searched for")
}

// TestSearchInTopAndLocks: in the views of functions and locks, a search lists only the rows that match, and says how
// many there are.
func TestSearchInTopAndLocks(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5")
	top := s.model.pages[scene.PageTop].(*top.Page)
	all := len(top.Table.Rows)
	s.search("Reports")
	if n := len(top.Table.Rows); n == 0 || n >= all || top.All != all {
		t.Errorf("%d of %d functions, there are %d", n, top.All, all)
	}
	for _, r := range top.Table.Rows {
		if !regexp.MustCompile("Reports|reports").MatchString(r.Label + r.File) {
			t.Errorf("%+v is listed", r.TopKey)
		}
	}
	s.press("esc")
	if len(top.Table.Rows) != all {
		t.Errorf("%d of %d functions after esc", len(top.Table.Rows), all)
	}
	// If the user opens a function of the top list in the flamegraph, ddtop searches the flamegraph for this function.
	// This search must not apply to the top list, which still has all rows.
	s.press("down", "enter", "5")
	if len(top.Table.Rows) != all || s.model.Flame.Search == nil {
		t.Errorf("%d of %d functions after one was shown", len(top.Table.Rows), all)
	}
	s.press("esc", "6")
	locks := s.model.pages[scene.PageLocks].(*locks.Page)
	s.search("JSON")
	if len(locks.ByPlace.Rows) == 0 || len(locks.ByPlace.Rows) == len(locks.Places) || len(locks.Locks.Rows) != 0 {
		t.Errorf("%d of %d places, %d locks", len(locks.ByPlace.Rows), len(locks.Places), len(locks.Locks.Rows))
	}
}

// TestSearchOfNothing: if nothing matches a search, the lists are empty and every key still works.
func TestSearchOfNothing(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		s := hogged(t, size[0], size[1])
		s.search("no such thing")
		for _, view := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			s.press(view, "down", "up", "n", "N", "enter", "!", "esc")
			checkRows(t, s, view)
		}
		if n := (scene.Threads{}).Counted(); n != "0 threads" {
			t.Error(n)
		}
	}
	var l scene.Threads = []scene.Thread{{ID: sampler.ThreadID(1), Name: "a"}}
	l.Search(nil, nil, nil)
	if l.Listed() != 1 {
		t.Error("without a search all are listed")
	}
}
