package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestUnseenTurns: other threads hold the GVL so briefly that no sample shows it. But the order of the queue has
// changed, which shows that they had the GVL. So the long hold of the first thread ends.
func TestUnseenTurns(t *testing.T) {
	s := newScene(t)
	hog, small := s.stack("Reports#build"), s.stack("Server#handle")
	other := []sampler.StackID{s.stack("Server#read"), s.stack("Server#write")}
	// unseen plays samples that always show the same thread with the GVL. If moves is true, the thread at the head of
	// the queue is at its end 100 ms later. So it had the GVL in between.
	unseen := func(d int64, waiters int, moves bool) {
		s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
			list := []sampler.Thread{s.at(gvltest.Holder(1), hog)}
			for k := range waiters {
				id := sampler.ThreadID(2 + (i/20+k)%waiters)
				if !moves {
					id = sampler.ThreadID(2 + k)
				}
				st := small
				if waiters == 1 && moves {
					st = other[i/20%2]
				}
				list = append(list, s.at(gvltest.Queued(id), st))
			}
			return 1, list
		})
	}
	unseen(8*gvltest.Sec, 4, true)
	if slices.Contains(s.ids(), "gvl_stuck") {
		t.Errorf("the queue moves: %v", s.f.Current())
	}
	unseen(8*gvltest.Sec, 1, true)
	if slices.Contains(s.ids(), "gvl_stuck") {
		t.Errorf("the one that waits is elsewhere each time: %v", s.f.Current())
	}
	unseen(8*gvltest.Sec, 4, false)
	if !slices.Contains(s.ids(), "gvl_stuck") {
		t.Errorf("nothing moves: %v", s.f.Current())
	}
}
