package live

import "time"

// Park takes the probes of exact mode out, ends following by thread switches, and waits until the tick under way is over, so that nothing of the target is held (a copy of one of its descriptors,
// a stop), and lets no other begin until resume is called: for a ddtop that is about to be stopped. A tick that does
// not end is not waited for. It may be called from any goroutine.
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
