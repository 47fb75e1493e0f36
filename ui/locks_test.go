package ui

import (
	"context"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/scene"
)

// deadlocked is the made-up order service with a deadlock: three of its threads wait for each other's locks forever.
type deadlocked struct{ *demosource.Source }

func (d deadlocked) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	return d.Source.Run(ctx, func(s *sampler.Sample) {
		for i := range 3 {
			th := &s.Threads[1+i]
			th.Bits, th.Status = sampler.BitBlockingRegion, sampler.StoppedForever
			th.Blocked = sampler.Blocked{Kind: sampler.BlockMutex, Object: 0x7f00a0 + uint64(i)*0x20, Holder: s.Threads[1+(i+1)%3].ID, FD: -1}
		}
		emit(s)
	})
}

func TestDeadlockCannotBeMissed(t *testing.T) {
	for _, size := range screenSizes {
		s := deadlockScreen(t, size[0], size[1], scene.Options{NoColor: true})
		m := s.model
		s.press("6")
		s.sees("✖ DEADLOCK of 3 threads", "http-1 waits for Mutex 0x7f00a0, held by http-2", "http-3 waits for Mutex 0x7f00e0, held by http-1")
		if !strings.Contains(m.grid.String(true), "\x1b[1;7m") {
			t.Error("without colours the box is not in reverse video")
		}
		s.press("down", "enter")
		if m.Page != scene.PageThread {
			t.Error("enter opens the holder")
		}
		s.press("esc")
		s.sees("DEADLOCK")
		checkRows(t, s, "locks")
	}
}

func TestLocksAndBlame(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("6")
	s.sees("6 locks", "lock", "waiters", "held now", "p95", "taken/s", "taken at", "of all waiting for the GVL", "worker-3", "JSON::Ext::Generator#generate → Float#to_s")
	p := s.model.pages[scene.PageLocks].(*locks.Page)
	var wait, charged int64
	for _, e := range s.model.Weights.Entries {
		wait += e.Weights.WaitNS
	}
	for _, b := range p.Places {
		charged += b.NS
	}
	if charged+p.NobodyNS != p.WaitNS || p.WaitNS < wait || p.WaitNS-wait > wait/100 {
		t.Errorf("%d waited; %d charged and %d of nobody", wait, charged, p.NobodyNS)
	}
	if p.Places[0].Thread != 12 {
		t.Errorf("worker-3 hogs the GVL, and the first place is of thread %d", p.Places[0].Thread)
	}
	for range len(p.Locks.Rows) + 1 {
		s.press("down")
	}
	s.sees("made others wait")
	s.press("enter")
	s.sees("worker-3", "stack now")
}
