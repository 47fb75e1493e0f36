package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/units"
)

// TestToldInTime: when a condition has ended, the text of its finding describes the window in which the condition was
// true. The text must be the same whether it is read early or late.
func TestToldInTime(t *testing.T) {
	s := newScene(t)
	s.calm(2 * gvltest.Sec)
	i := slices.IndexFunc(rules[:], func(r rule) bool { return r.id == "gvl_hog" })
	st, from := &s.f.states[i], s.f.win.nowNS
	st.raised, st.trueNS = true, from
	st.last = hit{score: 1, tell: func(h *hit) { h.text = units.ProseDuration(s.f.win.nowNS - from) }}
	s.calm(3 * gvltest.Sec)
	if !st.raised || st.last.tell != nil {
		t.Fatalf("raised %v, told %v", st.raised, st.last.tell == nil)
	}
	if got, want := s.f.finding(i).Text, units.ProseDuration(evaluateNS); got != want {
		t.Errorf("told of a window %s later, want %s", got, want)
	}
}
