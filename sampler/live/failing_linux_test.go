package live

import (
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// TestFailingIsSaidInTime: the screen calls Failing several times per second, to show the error. If reads have failed
// for 1.5 s, Failing must return the error. After a single failed tick, it must return no error.
func TestFailingIsSaidInTime(t *testing.T) {
	refused := errors.New("no")
	for _, c := range []struct {
		ago  time.Duration
		want error
	}{{0, nil}, {1500 * time.Millisecond, refused}} {
		var s sampling
		began := pace.Monotonic() - c.ago.Nanoseconds()
		s.failing.Failed(began, errors.New("another"))
		s.failing.Failed(pace.Monotonic(), refused)
		since, err := s.Failing()
		if err != c.want || err != nil && since != began {
			t.Errorf("reads have failed for %v: since %d, %v", c.ago, since, err)
		}
		s.failing.Succeeded()
		if since, err := s.Failing(); since != 0 || err != nil {
			t.Errorf("after one that did not: since %d, %v", since, err)
		}
	}
}
