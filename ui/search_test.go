package ui

import (
	"regexp"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// search types a search.
func (s *screen) search(text string) {
	s.press("/")
	for _, r := range text {
		s.press(string(r))
	}
	s.press("enter")
}

// TestSearchListsTheThreadsThatMatch: by name, in every view that lists threads; esc lists all again.
func TestSearchListsTheThreadsThatMatch(t *testing.T) {
	for _, view := range []string{"1", "2", "3"} {
		for _, size := range screenSizes {
			s := hogged(t, size[0], size[1])
			s.press(view)
			s.search("worker-[13]")
			if n := s.model.threads.listed(); n != 2 {
				t.Errorf("view %s: %d threads are listed", view, n)
			}
			s.sees("2 of 15", "worker")
			if rows := s.model.timeline.rows; view == "1" && slices.ContainsFunc(rows, func(w row) bool { return w.name == "main" }) {
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

// TestSearchListsTheThreadsThatRanIt: threads are found by the functions that they ran, too.
func TestSearchListsTheThreadsThatRanIt(t *testing.T) {
	s := hogged(t, 120, 40)
	s.search("Metrics#flush")
	m := s.model
	for i := range m.threads {
		if got := !m.threads[i].leftOut; got != (m.threads[i].name == "metrics") {
			t.Errorf("%s is listed: %v", m.threads[i].name, got)
		}
	}
	roots := m.timeline.roots()
	if len(roots) != len(m.threads) {
		t.Errorf("%d of %d threads have a name in the flamegraph", len(roots), len(m.threads))
	}
	s.press("2", "n")
	if m.selected.thread == 0 {
		t.Error("n selects nothing")
	}
	s.press("esc", "N")
	s.sees("nothing is searched for")
}

// TestSearchInTopAndLocks lists the functions and the locks that match, and says how many.
func TestSearchInTopAndLocks(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5")
	top := s.model.pages[pageTop].(*topPage)
	all := len(top.table.rows)
	s.search("Reports")
	if n := len(top.table.rows); n == 0 || n >= all || top.all != all {
		t.Errorf("%d of %d functions, there are %d", n, top.all, all)
	}
	for _, r := range top.table.rows {
		if !regexp.MustCompile("Reports|reports").MatchString(r.label + r.file) {
			t.Errorf("%+v is listed", r.topKey)
		}
	}
	s.press("esc")
	if len(top.table.rows) != all {
		t.Errorf("%d of %d functions after esc", len(top.table.rows), all)
	}
	// What top shows in the flamegraph leaves out no rows.
	s.press("down", "enter", "5")
	if len(top.table.rows) != all || s.model.flame.search == nil {
		t.Errorf("%d of %d functions after one was shown", len(top.table.rows), all)
	}
	s.press("esc", "6")
	locks := s.model.pages[pageLocks].(*locksPage)
	s.search("JSON")
	if len(locks.byPlace.rows) == 0 || len(locks.byPlace.rows) == len(locks.places) || len(locks.locks.rows) != 0 {
		t.Errorf("%d of %d places, %d locks", len(locks.byPlace.rows), len(locks.places), len(locks.locks.rows))
	}
}

// TestSearchOfNothing: an expression that nothing matches leaves the lists empty, and no view falls over.
func TestSearchOfNothing(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		s := hogged(t, size[0], size[1])
		s.search("no such thing")
		for _, view := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			s.press(view, "down", "up", "n", "N", "enter", "!", "esc")
			checkRows(t, s, view)
		}
		if n := (threadList{}).counted(); n != "0 threads" {
			t.Error(n)
		}
	}
	var l threadList = []threadRow{{id: sampler.ThreadID(1), name: "a"}}
	l.search(nil, nil, nil)
	if l.listed() != 1 {
		t.Error("without a search all are listed")
	}
}
