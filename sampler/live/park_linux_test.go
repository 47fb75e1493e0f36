package live

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TestPark: when Park returns, no tick may be running, and none may begin until resume is called. Park must not wait
// for a tick that hangs.
func TestPark(t *testing.T) {
	p := rubytest.One(t).Start(t, "Thread.new { loop { 1 + 1 } }; puts 1; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(*sampler.Sample) { seen.Add(1) }) }()
	more := func() {
		t.Helper()
		first := seen.Load()
		for deadline := time.Now().Add(rubytest.Timeout); seen.Load() < first+10; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d samples, and no more", seen.Load())
			}
		}
	}
	for range 5 {
		more()
		resume := s.Park()
		ticks := s.reader.Reads().Ticks   // the sampling thread's count, which does not change while the thread is parked
		time.Sleep(20 * time.Millisecond) // enough for about twenty ticks of a thread that is not parked
		if now := s.reader.Reads().Ticks; now != ticks {
			t.Errorf("%d ticks while it was parked", now-ticks)
		}
		resume()
	}
	more()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.ticking.Lock() // as if a tick hangs
	s.Park()()
	s.ticking.Unlock()
}

// TestCloseWhileExactHangs: a tick hangs, and exact mode waits for the end of this tick before it inserts probes. Close
// must return without waiting for exact mode.
func TestCloseWhileExactHangs(t *testing.T) {
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, "puts 1; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.ticking.Lock() // as if a tick hangs
	began, ended := make(chan error, 1), make(chan error, 1)
	go func() { began <- s.Exact(context.Background(), ExactOptions{}) }()
	for s.exact.mu.TryLock() { // until Exact has begun
		s.exact.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	go func() { ended <- s.Close() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(rubytest.Timeout):
		t.Fatal("it is not closed")
	}
	if err := <-began; err == nil {
		t.Error("exact mode has begun")
	}
	s.ticking.Unlock()
}
