package findingstest

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestDeadlockWithATimeLimit: threads are in a deadlock within a block of Timeout, which will end the deadlock. The
// advice of the finding must say so. The test uses several Rubies, because Ruby's releases differ in the labels of
// methods and in the code of Timeout. In one program, the call of Timeout is many frames further out. For a deadlock
// without Timeout, the advice does not mention Timeout.
func TestDeadlockWithATimeLimit(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	const limit = "the time limit (Timeout) around right"
	for name, limited := range map[string]bool{"limited/near": true, "limited/far": true, "raise/deadlock": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, name)
				s := watch(t, p.PID, nil, raiseTime, is("deadlock"), nil)
				f, ok := s.finding("deadlock")
				if !ok {
					rubytest.TooSeldomNow(t, "not raised in %v; seen: %v", raiseTime, s)
				}
				if strings.HasPrefix(f.Next, limit) != limited {
					t.Errorf("%s; what to do: %q", f.Text, f.Next)
				}
			})
		})
	}
}
