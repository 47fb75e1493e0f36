package live

import "time"

// Park takes the probes of exact mode out and waits until the tick under way is over, so that nothing of the target is held (a copy of one of its descriptors,
// a stop), and lets no other begin until resume is called: for a ddtop that is about to be stopped. A tick that does
// not end is not waited for. It may be called from any goroutine.
func (s *Source) Park() (resume func()) {
	exactly := s.parkExact()
	for deadline := time.Now().Add(letGoAfter); !s.ticking.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return exactly
		}
	}
	return func() {
		s.ticking.Unlock()
		exactly()
	}
}
