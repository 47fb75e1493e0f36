package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// lockedSince is a thread that waits for a lock another one holds and had so many turns on a CPU when that was read, at readNS.
func lockedSince(id, holder sampler.ThreadID, turns, readNS int64) sampler.Thread {
	th := asleep(id, sampler.StoppedForever, sampler.BlockMutex)
	th.Blocked.Object, th.Blocked.Holder = 0xa0+uint64(holder), holder
	th.Kernel.Turns, th.Kernel.CPUAtNS = turns, readNS
	return th
}

// TestTurnsOfPauses: a thread that is stopped for every sample is given a CPU each time, and has not moved for that. Where nobody
// stops it, one that is given a CPU again and again may have had the lock.
func TestTurnsOfPauses(t *testing.T) {
	for _, c := range []struct {
		pauses bool
		want   []string
	}{{true, []string{"deadlock"}}, {false, nil}} {
		s := newScene(t)
		p := procOf(sampler.EraSched)
		p.AttachedNS, p.Pauses = base-60*sec, c.pauses
		s.c = NewClassifier(p, s.dict)
		s.watch(p, nil)
		s.play(2*sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			return 0, []sampler.Thread{lockedSince(1, 2, int64(i), s.now), lockedSince(2, 1, int64(i), s.now)}
		})
		s.want("each tick a turn", c.want)
		if about := atMost(s.f.win.state(1)); (about == "") != c.pauses {
			t.Errorf("pauses %v: its length is said with %q", c.pauses, about)
		}
	}
}
