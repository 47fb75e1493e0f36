package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/push"
)

// openRoutes is routes for as long as ctx lasts: a disk that hangs may never answer.
func (f *pushFlags) openRoutes(ctx context.Context) ([]push.Route, error) {
	type opened struct {
		routes []push.Route
		err    error
	}
	done := make(chan opened, 1)
	// As with what reads a process: on the first thread it would keep signals from all others.
	attach.OnOwnThread(func() {
		routes, err := f.routes()
		done <- opened{routes, err}
	})
	select {
	case o := <-done:
		return o.routes, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("opening the destinations and their spools has not come back: does the disk of %s answer?",
			cmp.Or(f.spool, strings.Join(f.to, ", ")))
	}
}

// closeWithin is how long closing the spools may take, after withinEnd.
const closeWithin = 400 * time.Millisecond

// closeRoutes lets go of the spools. What is in them stays, however this ends, and so it does where the disk does not answer.
func closeRoutes(routes []push.Route) {
	done := make(chan struct{})
	attach.OnOwnThread(func() {
		for _, r := range routes {
			_ = r.Queue.Close()
		}
		close(done)
	})
	select {
	case <-done:
	case <-time.After(closeWithin):
	}
}
