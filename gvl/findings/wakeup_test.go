package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestLostWakeup: there is a finding if threads wait for some time for a Queue that has items all this time. There is
// none if the Queue becomes empty in between.
func TestLostWakeup(t *testing.T) {
	for _, c := range []struct {
		name  string
		items func(i int) bool
		lost  bool
	}{
		{"items all the time", func(int) bool { return true }, true},
		{"empty", func(int) bool { return false }, false},
		{"now and then", func(i int) bool { return i/200%2 == 0 }, false},
	} {
		s := newScene(t)
		stack := s.stack("c:Queue#pop", "Jobs#run")
		s.play(5*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			var threads []sampler.Thread
			for id := range sampler.ThreadID(2) {
				x := s.at(gvltest.Asleep(id+1, sampler.StoppedForever, sampler.BlockQueue), stack)
				x.Blocked.Object = 0x7f20
				if c.items(i) {
					x.Bits |= sampler.BitItems
				}
				threads = append(threads, x)
			}
			return 0, threads
		})
		if got := slices.Contains(s.ids(), ruleLostWakeup); got != c.lost {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
		if c.lost {
			s.names(s.one(ruleLostWakeup), "", "2 threads wait for Queue 0x7f20, which has had items for",
				"in Jobs#run → Queue#pop")
		}
	}
}
