package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestLockStarved: if one thread takes a lock again and again and others never get it, the finding is lock_starved. If
// the thread keeps the lock, or others get it now and then, the finding is lock_convoy.
func TestLockStarved(t *testing.T) {
	for _, c := range []struct {
		what string
		// turns returns how many times a waiting thread has got a CPU up to sample i. turn reports whether the thread
		// has the lock in sample i.
		turns func(i int) int64
		turn  func(i int) bool
		want  string
	}{
		{"taken again", func(i int) int64 { return int64(1 + i/4) }, func(int) bool { return false }, "lock_starved"},
		{"kept", func(int) int64 { return 1 }, func(int) bool { return false }, "lock_convoy"},
		{"a turn now and then", func(i int) int64 { return int64(1 + i/4) }, func(i int) bool { return i%100 == 0 }, "lock_convoy"},
	} {
		s := newScene(t)
		s.named(1, "writer", false)
		writes, reads := s.stack("c:Kernel#sleep", "Log#write"), s.stack("c:Thread::Mutex#synchronize", "Log#read")
		s.play(12*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			list := []sampler.Thread{s.at(gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep), writes)}
			for id := sampler.ThreadID(2); id <= 4; id++ {
				if c.turn(i + int(id)) {
					list = append(list, s.at(gvltest.Asleep(id, sampler.Stopped, sampler.BlockSleep), writes))
				} else {
					list = append(list, s.at(lockedSince(id, 1, c.turns(i), s.now), reads))
				}
			}
			return 0, list
		})
		if got := s.ids(); !slices.Contains(got, c.want) || len(got) != 1 {
			t.Errorf("%s: %v", c.what, s.f.Current())
		}
		if c.want == "lock_starved" {
			s.want(c.what, []string{c.want}, "writer had Mutex", "now in Log#write → Kernel#sleep (app.rb:10)", "about ", " times per second", "3 threads wait")
		}
	}
}
