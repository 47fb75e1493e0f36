package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestFindingsLeadToWhatTheyAreAbout: the arrow keys select a finding. Enter opens the thread or lock of this finding,
// and esc returns to the finding.
func TestFindingsLeadToWhatTheyAreAbout(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		s := hogged(t, size[0], size[1])
		m := s.model
		for i, f := range m.Findings.List {
			s.press("!")
			for range 60 {
				if m.over.Finding == m.Findings.ID(i) {
					break
				}
				s.press("down")
			}
			if m.over.Finding != m.Findings.ID(i) {
				t.Fatalf("%v: the arrows do not get to %q", size, f.ID)
			}
			s.sees("▌", "enter go there", "esc close")
			s.misses("tab flamegraph")
			before := m.over.Finding
			s.press("enter")
			switch {
			case m.over.What != widget.NoOverlay:
				t.Errorf("%v: enter on %q leaves the list open", size, f.ID)
			case f.Object != 0:
				if m.Page != scene.PageLocks {
					t.Errorf("%q leads to view %s", f.ID, m.Page)
				}
			case len(f.Threads) > 0:
				if m.Page != scene.PageThread || m.Selected.Thread != f.Threads[0] {
					t.Errorf("%q leads to view %s, thread %d: want %d", f.ID, m.Page, m.Selected.Thread, f.Threads[0])
				}
			}
			s.sees("esc back")
			s.press("esc")
			if m.Page != scene.PageLive || m.over.What != widget.FindingsOverlay || m.over.Finding != before || m.Selected != (scene.RowKey{}) {
				t.Errorf("%v: esc comes back to view %s, %+v", size, m.Page, m.over)
			}
			s.press("esc")
			s.misses("enter go there")
		}
	}
}

// TestAFindingLeadsToItsLockOrItsLine: if a finding is about a lock, enter opens the lock. If it is about a line of
// code, enter searches the flamegraph for the function of this line.
func TestAFindingLeadsToItsLockOrItsLine(t *testing.T) {
	for _, size := range screenSizes {
		s := deadlockScreen(t, size[0], size[1], scene.Options{})
		m := s.model
		of := slices.IndexFunc(m.Findings.List, func(f findings.Finding) bool { return f.Object != 0 })
		if of < 0 {
			t.Fatalf("no finding names a lock: %+v", m.Findings.List)
		}
		goToFinding(m, m.Findings.ID(of))
		if k := *m.pages[scene.PageLocks].(*locks.Page).Both.Cursor; m.Page != scene.PageLocks || k.Object != m.Findings.List[of].Object {
			t.Errorf("view %s with the cursor on %x", m.Page, k.Object)
		}
		s.press("esc")

		stack := m.States[slices.IndexFunc(m.States, func(x gvl.ThreadState) bool { return codeOf(m.Dict, x.Stack) != "" })].Stack
		line := findings.Finding{ID: "of_a_line", Title: "Line", Text: "text", Stack: stack}
		whole := findings.Finding{ID: "gc_pressure", Title: "Whole", Text: "text"}
		m.Findings.List = []findings.Finding{line, whole}
		goToFinding(m, scene.FindingID{Rule: line.ID})
		if m.Page != scene.PageLive || m.Flame.Search == nil || !strings.Contains(m.Flame.Search.String(), codeOf(m.Dict, stack)) {
			t.Errorf("a line leads to view %s, %v", m.Page, m.Flame.Search)
		}
		s.press("esc")
		if m.Flame.Search != nil {
			t.Error("the search stays")
		}
		m.Findings.List = []findings.Finding{line, whole}
		goToFinding(m, scene.FindingID{Rule: whole.ID})
		if m.Page != scene.PageMemory {
			t.Errorf("a finding of the collector leads to view %s", m.Page)
		}
	}
}

// TestFindingsCanBeClicked: a click on a finding opens its thread. This works at the top of the screen and in the list
// of all findings. A click beside the list closes the list.
func TestFindingsCanBeClicked(t *testing.T) {
	s := hogged(t, 120, 40)
	m := s.model
	click := func(text string) {
		x, y := s.at(text)
		s.click(x, y)
	}
	click(m.Findings.List[0].Title)
	if m.Page != scene.PageThread || m.Selected.Thread != m.Findings.List[0].Threads[0] {
		t.Errorf("a click in the head leads to view %s, %+v", m.Page, m.Selected)
	}
	s.press("esc")
	if m.Page != scene.PageLive || m.over.What != widget.NoOverlay {
		t.Errorf("esc comes back to view %s, %+v", m.Page, m.over)
	}
	s.press("!")
	click(m.Findings.List[1].Title)
	if m.Page == scene.PageLive || m.over.What != widget.NoOverlay {
		t.Errorf("a click in the list leads to view %s", m.Page)
	}
	s.press("esc")
	click("esc close")
	if m.over.What != widget.NoOverlay {
		t.Error("the footer's key does not close the list")
	}

	wide := hogged(t, 300, 50)
	wide.press("!")
	wide.click(2, 20)
	if wide.model.over.What != widget.NoOverlay {
		t.Error("a click beside the list leaves it open")
	}

	long := findings.Finding{ID: "a", Title: "Title", Text: strings.Repeat("long text ", 20)}
	small := hogged(t, 80, 24)
	small.model.Findings.List = []findings.Finding{long, {ID: "b", Title: "Other"}, {ID: "c", Title: "Third"}}
	small.model.Draw()
	x, y := small.at("more: !")
	small.click(x, y)
	if small.model.over.What != widget.FindingsOverlay {
		t.Error("a click on the number of others does not list them")
	}
}
