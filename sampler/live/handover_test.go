package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// Of samples that nothing is to be added to.
func always(int64) bool { return true }
func atOnce(int64)      {}

// TestHandoverCountsWhatIsLost: each sample is taken or counted, and the first one behind a hole says how large it is.
func TestHandoverCountsWhatIsLost(t *testing.T) {
	for _, c := range []struct{ threads, room int }{{1, maxWaiting}, {1000, maxWaitingThreads / 1000}, {2 * maxWaitingThreads, 1}} {
		h := newHandover()
		x := sampler.Sample{Threads: make([]sampler.Thread, c.threads)}
		put := func(n int) {
			for range n {
				x.Reads.Ticks++
				x.TimeNS++
				h.put(&x, nil)
			}
		}
		taken, last := 0, sampler.Reads{}
		take := func() {
			h.take(always, func(s *handed) {
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
		// At the end too what is lost is said, though no sample comes behind it.
		put(c.room + 5)
		h.end(atOnce, func(s *handed) { taken++; last = s.Reads })
		if last.Ticks != x.Reads.Ticks || last.Lost != 7+4 || uint64(taken)+last.Lost != last.Ticks {
			t.Errorf("%d threads: the end is tick %d of %d with %d lost, after %d", c.threads, last.Ticks, x.Reads.Ticks, last.Lost, taken)
		}
	}
}

// TestHandoverAllocatesNothing: in the steady state a tick's sample goes into memory that there is, and shares none
// with it.
func TestHandoverAllocatesNothing(t *testing.T) {
	h := newHandover()
	x := sampler.Sample{Ractors: []sampler.Ractor{{Queue: []sampler.ThreadID{1, 2}}}, Threads: make([]sampler.Thread, 10)}
	x.Threads[3].Resumers = []sampler.StackID{7, 8}
	h.put(&x, nil)
	x.Ractors[0].Queue[0], x.Threads[3].Resumers[1], x.Threads[0].ID = 9, 9, 9
	h.take(always, func(s *handed) {
		if s.Ractors[0].Queue[0] != 1 || s.Threads[3].Resumers[1] != 8 || s.Threads[0].ID != 0 {
			t.Errorf("the sample that was handed over has changed: %+v", s)
		}
	})
	if n := testing.AllocsPerRun(1000, func() { h.put(&x, nil); h.take(always, func(*handed) {}) }); n != 0 {
		t.Errorf("%g allocations a tick", n)
	}
}

// TestSamplingDoesNotWait: while the consumer of the samples does something else, the clock goes on: samples come of
// that time.
func TestSamplingDoesNotWait(t *testing.T) {
	p := rubytest.One(t).Start(t, "$stdout.sync = true\nputs 'up'\nx = 0\nloop { x += 1 }\n", rubytest.Options{})
	p.Expect(t, "up")
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer stop()
	var from, to int64
	within, after := 0, 0
	err = s.Run(ctx, func(x *sampler.Sample) {
		switch {
		case from == 0:
			from = pace.Monotonic()
			time.Sleep(time.Second) // the disk, or a picture
			to = pace.Monotonic()
		case x.TimeNS > to:
			if after++; after == 1 {
				stop()
			}
		default:
			within++
		}
	})
	if err != nil && !errors.Is(err, attach.ErrGone) {
		t.Fatal(err)
	}
	if within == 0 || after == 0 {
		t.Errorf("%d samples are of the second in which nobody took any, %d of later", within, after)
	}
	t.Logf("%d samples are of the %v in which nobody took any", within, time.Duration(to-from))
}

// TestHandoverKeepsOrder: what one goroutine hands over comes to the other whole and in order, while both go on.
func TestHandoverKeepsOrder(t *testing.T) {
	h := newHandover()
	const all = 20 * maxWaiting
	put := make(chan struct{})
	go func() {
		defer close(put)
		x := sampler.Sample{Threads: make([]sampler.Thread, 3)}
		for i := range all {
			x.TimeNS, x.Threads[2].ID, x.Reads.Ticks = int64(i)*batchNS/10, sampler.ThreadID(i), uint64(i+1)
			h.put(&x, nil)
		}
	}()
	taken, last := uint64(0), sampler.Reads{}
	take := func(s *handed) {
		if taken++; s.Reads.Ticks != taken+s.Reads.Lost || s.Threads[2].ID != sampler.ThreadID(s.Reads.Ticks-1) {
			t.Errorf("tick %d with %d lost before it and thread %d, after %d samples", s.Reads.Ticks, s.Reads.Lost, s.Threads[2].ID, taken-1)
		}
		last = s.Reads
	}
	for over := false; !over; {
		select {
		case <-h.wake:
			h.take(always, take)
		case <-put:
			h.end(atOnce, take)
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
