package pace

import "testing"

// TestMoreForATime: TakeMore allows a larger share of a CPU for a limited time, so that ticks come at higher rates.
// After this time the usual budget holds again. A further call of TakeMore can end the time earlier.
func TestMoreForATime(t *testing.T) {
	const share, more, second = 0.03, 0.25, int64(1e9)
	cost := func(s *spender, fromNS, toNS int64) float64 {
		s.run(fromNS)
		from := len(s.cpu) - 1
		s.run(toNS)
		return (s.cpu[len(s.cpu)-1].ns - s.cpu[from].ns) / float64(toNS-fromNS)
	}
	for _, c := range []struct {
		name   string
		forNS  int64
		endsNS int64 // when a further call of TakeMore ends the time early, or zero
	}{{"30 s", 30 * second, 0}, {"ended after 12 s", 30 * second, 32 * second}} {
		s := newSpender(share, 1)
		s.lock = func(int, int64) float64 { return 200e3 } // in ns; 1,000 ticks a second take a fifth of a CPU
		if usual := cost(s, 10*second, 20*second); usual > 1.1*share {
			t.Fatalf("%s: the budget takes %.3f", c.name, usual)
		}
		s.b.TakeMore(more, s.sources[0].Next+c.forNS)
		if got := cost(s, 28*second, 32*second); got < 4*share || got > 1.1*more {
			t.Errorf("%s: %.3f are taken, not up to %.2f", c.name, got, more)
		}
		after := 50 * second
		if c.endsNS != 0 {
			s.b.TakeMore(more, s.sources[0].Next)
			after = c.endsNS
		}
		// When the time ends, CPU time may be left that was saved at the larger share. The budget takes up to a second
		// to lower the rates. So measure only two seconds later.
		if got := cost(s, after+2*second, after+12*second); got > 1.1*share {
			t.Errorf("%s: %.3f are taken after it, not %.2f", c.name, got, share)
		}
	}
	s := newSpender(0, 1)
	s.b.TakeMore(more, 30*second)
	if s.b.InForce() != 0 {
		t.Error("there is a limit where none was")
	}
}
