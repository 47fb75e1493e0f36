package handover

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// always and atOnce are for tests in which every sample is ready at once. Outside these tests, samples must wait until
// their changes are added.
func always(int64) bool { return true }
func atOnce(int64)      {}

// TestHandoverCountsWhatIsLost: each sample is either taken or counted as lost. After a gap, the next sample has the
// new count of lost samples.
func TestHandoverCountsWhatIsLost(t *testing.T) {
	for _, c := range []struct{ threads, room int }{{1, maxWaiting}, {1000, maxWaitingThreads / 1000}, {2 * maxWaitingThreads, 1}} {
		h := New()
		x := sampler.Sample{Threads: make([]sampler.Thread, c.threads)}
		put := func(n int) {
			for range n {
				x.Reads.Ticks++
				x.TimeNS++
				h.Put(&x, nil)
			}
		}
		taken, last := 0, sampler.Reads{}
		take := func() {
			h.Take(always, func(s *Sample) {
				taken++
				if missing := s.Reads.Ticks - uint64(taken); missing != s.Reads.Lost {
					t.Fatalf("%d threads: before tick %d %d are missing, and %d are said to be lost", c.threads, s.Reads.Ticks, missing, s.Reads.Lost)
				}
				if len(s.Threads) != c.threads {
					t.Fatalf("%d threads, want %d", len(s.Threads), c.threads)
				}
				last = s.Reads
			})
		}
		put(c.room + 7)
		take()
		if taken != c.room {
			t.Errorf("%d threads: %d samples waited, want %d", c.threads, taken, c.room)
		}
		put(1)
		take()
		if last.Lost != 7 || last.Ticks != uint64(taken)+last.Lost {
			t.Errorf("%d threads: the last one taken is tick %d with %d lost, after %d", c.threads, last.Ticks, last.Lost, taken)
		}
		// The last samples are lost, and no later sample comes. End must report this loss.
		put(c.room + 5)
		h.End(atOnce, func(s *Sample) { taken++; last = s.Reads })
		if last.Ticks != x.Reads.Ticks || last.Lost != 7+4 || uint64(taken)+last.Lost != last.Ticks {
			t.Errorf("%d threads: the end is tick %d of %d with %d lost, after %d", c.threads, last.Ticks, x.Reads.Ticks, last.Lost, taken)
		}
	}
}

// TestHandoverAllocatesNothing: after the first samples, a sample is copied into the memory of an earlier one. The copy
// shares no memory with the original.
func TestHandoverAllocatesNothing(t *testing.T) {
	h := New()
	x := sampler.Sample{Ractors: []sampler.Ractor{{Queue: []sampler.ThreadID{1, 2}}}, Threads: make([]sampler.Thread, 10)}
	x.Threads[3].Resumers = []sampler.StackID{7, 8}
	h.Put(&x, nil)
	x.Ractors[0].Queue[0], x.Threads[3].Resumers[1], x.Threads[0].ID = 9, 9, 9
	h.Take(always, func(s *Sample) {
		if s.Ractors[0].Queue[0] != 1 || s.Threads[3].Resumers[1] != 8 || s.Threads[0].ID != 0 {
			t.Errorf("the sample that was handed over has changed: %+v", s)
		}
	})
	if n := testing.AllocsPerRun(1000, func() { h.Put(&x, nil); h.Take(always, func(*Sample) {}) }); n != 0 {
		t.Errorf("%g allocations a tick", n)
	}
}

// TestHandoverKeepsOrder: one goroutine hands over samples while another takes them. The samples arrive complete and in
// order.
func TestHandoverKeepsOrder(t *testing.T) {
	h := New()
	const all = 20 * maxWaiting
	put := make(chan struct{})
	go func() {
		defer close(put)
		x := sampler.Sample{Threads: make([]sampler.Thread, 3)}
		for i := range all {
			x.TimeNS, x.Threads[2].ID, x.Reads.Ticks = int64(i)*batchNS/10, sampler.ThreadID(i), uint64(i+1)
			h.Put(&x, nil)
		}
	}()
	taken, last := uint64(0), sampler.Reads{}
	take := func(s *Sample) {
		if taken++; s.Reads.Ticks != taken+s.Reads.Lost || s.Threads[2].ID != sampler.ThreadID(s.Reads.Ticks-1) {
			t.Errorf("tick %d with %d lost before it and thread %d, after %d samples", s.Reads.Ticks, s.Reads.Lost, s.Threads[2].ID, taken-1)
		}
		last = s.Reads
	}
	for over := false; !over; {
		select {
		case <-h.Wake:
			h.Take(always, take)
		case <-put:
			h.End(atOnce, take)
			over = true
		}
		if t.Failed() {
			return
		}
	}
	if last.Ticks != all || h.threads.Load() != 0 {
		t.Errorf("the last one is tick %d of %d; %d threads are said to wait", last.Ticks, all, h.threads.Load())
	}
}
