package live

import "time"

// Park prepares for ddtop being stopped. It takes out probes, ends following by thread switches, and lets no tick
// begin until resume is called. It does not wait for a tick that hangs. It may be called from any goroutine.
func (s *Source) Park() (resume func()) {
	resumed := both(s.parkExact(), s.parkSwitches())
	for deadline := time.Now().Add(letGoAfter); !s.ticking.TryLock(); time.Sleep(time.Millisecond) {
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
