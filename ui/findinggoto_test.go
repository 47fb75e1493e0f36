package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
)

// TestFindingsLeadToWhatTheyAreAbout: the arrows select one, enter goes to the thread or lock, esc comes back to it.
func TestFindingsLeadToWhatTheyAreAbout(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		s := hogged(t, size[0], size[1])
		m := s.model
		for i, f := range m.findings.list {
			s.press("!")
			for range 60 {
				if m.over.finding == m.findings.id(i) {
					break
				}
				s.press("down")
			}
			if m.over.finding != m.findings.id(i) {
				t.Fatalf("%v: the arrows do not get to %q", size, f.ID)
			}
			s.sees("▌", "enter go there", "esc close")
			s.misses("tab flamegraph")
			before := m.over.finding
			s.press("enter")
			switch {
			case m.over.what != noOverlay:
				t.Errorf("%v: enter on %q leaves the list open", size, f.ID)
			case f.Object != 0:
				if m.page != pageLocks {
					t.Errorf("%q leads to view %s", f.ID, m.page)
				}
			case len(f.Threads) > 0:
				if m.page != pageThread || m.selected.thread != f.Threads[0] {
					t.Errorf("%q leads to view %s, thread %d: want %d", f.ID, m.page, m.selected.thread, f.Threads[0])
				}
			}
			s.sees("esc back")
			s.press("esc")
			if m.page != pageLive || m.over.what != findingsOverlay || m.over.finding != before || m.selected != (rowKey{}) {
				t.Errorf("%v: esc comes back to view %s, %+v", size, m.page, m.over)
			}
			s.press("esc")
			s.misses("enter go there")
		}
	}
}

// TestAFindingLeadsToItsLockOrItsLine where those are what it names.
func TestAFindingLeadsToItsLockOrItsLine(t *testing.T) {
	for _, size := range screenSizes {
		s := deadlockScreen(t, size[0], size[1], Options{})
		m := s.model
		of := slices.IndexFunc(m.findings.list, func(f gvl.Finding) bool { return f.Object != 0 })
		if of < 0 {
			t.Fatalf("no finding names a lock: %+v", m.findings.list)
		}
		goToFinding(m, m.findings.id(of))
		if k := *m.pages[pageLocks].(*locksPage).both.cursor; m.page != pageLocks || k.object != m.findings.list[of].Object {
			t.Errorf("view %s with the cursor on %x", m.page, k.object)
		}
		s.press("esc")

		stack := m.states[slices.IndexFunc(m.states, func(x gvl.ThreadState) bool { return codeOf(m.dict, x.Stack) != "" })].Stack
		line := gvl.Finding{ID: "of_a_line", Title: "Line", Text: "text", Stack: stack}
		whole := gvl.Finding{ID: "gc_pressure", Title: "Whole", Text: "text"}
		m.findings.list = []gvl.Finding{line, whole}
		goToFinding(m, findingID{rule: line.ID})
		if m.page != pageLive || m.flame.search == nil || !strings.Contains(m.flame.search.String(), codeOf(m.dict, stack)) {
			t.Errorf("a line leads to view %s, %v", m.page, m.flame.search)
		}
		s.press("esc")
		if m.flame.search != nil {
			t.Error("the search stays")
		}
		m.findings.list = []gvl.Finding{line, whole}
		goToFinding(m, findingID{rule: whole.ID})
		if m.page != pageMemory {
			t.Errorf("a finding of the collector leads to view %s", m.page)
		}
	}
}

// TestFindingsCanBeClicked in the head and in the list of all; a click beside that closes it.
func TestFindingsCanBeClicked(t *testing.T) {
	s := hogged(t, 120, 40)
	m := s.model
	click := func(text string) {
		x, y := s.at(text)
		s.click(x, y)
	}
	click(m.findings.list[0].Title)
	if m.page != pageThread || m.selected.thread != m.findings.list[0].Threads[0] {
		t.Errorf("a click in the head leads to view %s, %+v", m.page, m.selected)
	}
	s.press("esc")
	if m.page != pageLive || m.over.what != noOverlay {
		t.Errorf("esc comes back to view %s, %+v", m.page, m.over)
	}
	s.press("!")
	click(m.findings.list[1].Title)
	if m.page == pageLive || m.over.what != noOverlay {
		t.Errorf("a click in the list leads to view %s", m.page)
	}
	s.press("esc")
	click("esc close")
	if m.over.what != noOverlay {
		t.Error("the footer's key does not close the list")
	}

	wide := hogged(t, 300, 50)
	wide.press("!")
	wide.click(2, 20)
	if wide.model.over.what != noOverlay {
		t.Error("a click beside the list leaves it open")
	}

	long := gvl.Finding{ID: "a", Title: "Title", Text: strings.Repeat("long text ", 20)}
	small := hogged(t, 80, 24)
	small.model.findings.list = []gvl.Finding{long, {ID: "b", Title: "Other"}, {ID: "c", Title: "Third"}}
	small.model.Draw()
	x, y := small.at("more: !")
	small.click(x, y)
	if small.model.over.what != findingsOverlay {
		t.Error("a click on the number of others does not list them")
	}
}
