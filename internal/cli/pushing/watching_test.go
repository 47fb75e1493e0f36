package pushing

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
)

// TestCapturesDelayNoProfile: a process is left while its capture waits for another one, so that its last profile is
// sent. At the end no capture is ordered that nothing would make.
func TestCapturesDelayNoProfile(t *testing.T) {
	w := new(Watch)
	w.begin()
	w.capturing.Lock() // for good: the capture's goroutine never gets further
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
