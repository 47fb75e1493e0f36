package ui

import (
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// spending is a Source for tests that remembers for how long it was allowed to use more CPU time.
type spending struct {
	sampler.Source
	asked []time.Duration
}

func (s *spending) TakeMore(d time.Duration) { s.asked = append(s.asked, d) }

// TestMoreKey: the key B lets ddtop use more CPU time for 30 s, and the first row of the screen counts down. The usual
// limit is back after 30 s, or when B is pressed again. For a recording the key does nothing. If ddtop has no limit, a
// message says that it already takes what it needs.
func TestMoreKey(t *testing.T) {
	s := newScreen(t, 200, 50, demosource.Options{Length: 12 * time.Second}, scene.Options{})
	now := s.still()
	src := &spending{Source: s.store.Src}
	s.store.Src = src
	s.model.Process.Overhead = 0.03
	s.press("B")
	s.sees("25 % of a CPU instead of 3 %", " of 25 % for 30 s")
	*now = now.Add(12 * time.Second)
	s.model.Refresh()
	s.sees(" of 25 % for 18 s")
	*now = now.Add(19 * time.Second)
	s.model.Refresh()
	s.misses("of 25 %")
	s.press("B", "B")
	s.sees("the limits of --overhead and --exact-cost hold again")
	s.misses("of 25 %")
	if want := []time.Duration{sampler.MoreTime, sampler.MoreTime, 0}; !slices.Equal(src.asked, want) {
		t.Errorf("asked for %v, want %v", src.asked, want)
	}

	s.model.Opt.Exact = new(fakeExact)
	s.press("B")
	s.sees("for 30 s ddtop may take 25 % of a CPU instead of 3 %, and exact mode may cost the process 15 % of its CPU time")
	s.press("B")
	s.model.Process.Overhead = 0
	s.press("B")
	s.sees("for 30 s exact mode may cost the process 15 % of its CPU time", "exact may cost 15 % for 30 s")
	s.press("B")
	s.misses("exact may cost")
	if len(src.asked) != 7 || src.asked[5] != sampler.MoreTime || src.asked[6] != 0 {
		t.Errorf("with exact mode: asked for %v", src.asked)
	}
	s.model.Opt.Exact, src.asked = nil, nil

	s.press("B")
	s.sees("takes what it needs already")
	s.model.Opt.Replay = true
	s.press("B")
	s.misses("of 25 %")
	if len(src.asked) != 0 {
		t.Errorf("asked for %v", src.asked)
	}
}
