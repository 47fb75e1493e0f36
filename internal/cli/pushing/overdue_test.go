package pushing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestOverdue: the channel that Overdue returns is closed one second after ddtop was told to end, and not before. A
// folder that is not open by then is on a disk that hangs.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		over := Overdue(ctx)
		select {
		case <-over:
			t.Error("it is overdue before the end")
		case <-time.After(time.Hour):
		}
		end()
		began := time.Now()
		if <-over; time.Since(began) != openWithin {
			t.Errorf("it is overdue after %v, want %v", time.Since(began), openWithin)
		}
	})
}
