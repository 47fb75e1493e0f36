package live

import (
	"time"

	"github.com/ddtop/ddtop/sampler/live/internal/apart"
)

// Park prepares for a stop of ddtop by a signal. It removes probes, stops following thread switches, and starts no
// tick until resume is called. It does not wait for a tick that hangs. Any goroutine may call it.
func (s *Source) Park() (resume func()) {
	resumed := both(s.parkExact(), s.parkSwitches())
	for deadline := time.Now().Add(apart.LetGoAfter); !s.ticking.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return resumed
		}
	}
	return func() {
		s.ticking.Unlock()
		resumed()
	}
}

// both returns a function that calls two.
func both(a, b func()) func() { return func() { a(); b() } }
