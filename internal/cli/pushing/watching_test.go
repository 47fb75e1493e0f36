package pushing

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
)

// TestCapturesDelayNoProfile: ddtop stops watching a process (leave) while the process's capture has to wait for
// another capture. leave must return at once, because the last profile is sent only after it. It also must not order a
// new capture, because no later call would make it.
func TestCapturesDelayNoProfile(t *testing.T) {
	w := new(Watch)
	w.begin()
	w.capturing.Lock() // never unlocked, so the capture cannot continue
	for _, ending := range []bool{false, true} {
		x := &watched{Watch: w, orders: make(chan order, 1)}
		x.on = w.board.Join(alert.Process{Process: push.Process{PID: 1}}, func(*alert.Finding) alert.Capture {
			t.Error("a capture was ordered after the end")
			return alert.Capture{}
		})
		x.orders <- order{base: "x"}
		x.on.Set(time.Now(), nil, []alert.Finding{{Rule: "deadlock", Severity: "crit"}})
		left := make(chan struct{})
		go func() {
			x.leave(ending, !ending)
			close(left)
		}()
		select {
		case <-left:
		case <-time.After(time.Minute):
			t.Fatal("it waits for a capture")
		}
		w.finish()
	}
}
