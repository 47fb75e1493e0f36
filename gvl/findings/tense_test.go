package findings

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
)

// TestWhatHasEndedIsToldInThePast: a condition ended a few seconds ago, so it still fills most of the window. The
// finding is nevertheless shown in the past tense, with the time since its end and the text from its worst moment. More
// than 30 s after the end, it is not shown.
func TestWhatHasEndedIsToldInThePast(t *testing.T) {
	s := newScene(t)
	s.turns(12*gvltest.Sec, 6, 19)
	for _, f := range s.f.Told() {
		if f.AgoNS != 0 || strings.Contains(f.String(), " ago: ") {
			t.Errorf("going on: %s", f)
		}
	}
	ended := s.now
	s.calm(5 * gvltest.Sec)
	check := func(what string, want int) {
		t.Helper()
		told := s.f.Told()
		if len(told) != want {
			t.Errorf("%s: %v", what, told)
		}
		for _, f := range told {
			if off := f.UntilNS - ended; off < -gvltest.Sec || float64(off) > (1-endedShare)*trailNS || f.AgoNS != s.now-f.UntilNS && f.AgoNS != s.now-sceneTick-f.UntilNS {
				t.Errorf("%s: ended %d ms from when it did, %d ms ago: %s", what, off/gvltest.MS, f.AgoNS/gvltest.MS, f)
			}
			past := map[string]string{"gvl_saturated": "threads waited, ", "gvl_hog": "Thread hogged the GVL: "}[f.ID]
			if !strings.Contains(f.String(), past) || !strings.HasPrefix(f.String(), f.When()+f.Title) || !strings.Contains(f.When(), " s ago: ") {
				t.Errorf("%s: %s", what, f)
			}
		}
	}
	check("5 s later", 2)
	s.calm(20 * gvltest.Sec)
	s.want("25 s later", nil)
	check("25 s later", 2)
	for _, f := range s.f.Raised() {
		if f.AgoNS == 0 || f.UntilNS == 0 {
			t.Errorf("of the run: %s", f)
		}
	}
	s.calm(20 * gvltest.Sec)
	check("45 s later", 0)
	s.turns(12*gvltest.Sec, 6, 19)
	if told := s.f.Told(); len(told) != 2 || told[0].AgoNS != 0 || told[1].AgoNS != 0 {
		t.Errorf("again: %v", told)
	}
}

// TestEndedDeadlockHides: a deadlock's condition has just ended, but its rule still counts as raised for a moment. In
// this time the deadlock stays in Current, and hides the finding io_busy that it explains.
func TestEndedDeadlockHides(t *testing.T) {
	f := newScene(t).f
	for i, r := range rules {
		switch r.id {
		case "deadlock":
			f.states[i] = ruleState{raised: true, shown: true, endedNS: 1, last: hit{severity: SeverityCrit}, worst: Finding{ID: r.id}}
		case "io_busy":
			f.states[i] = ruleState{raised: true, shown: true}
		}
	}
	rules := f.Current()
	if len(rules) != 1 || rules[0].ID != "deadlock" { // the deadlock hides io_busy
		t.Errorf("%v", rules)
	}
}
