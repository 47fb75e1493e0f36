package sampler

import (
	"context"
	"errors"
	"testing"
)

// fakeGroup is a Group for tests. It passes Sources to join, and records for which of them Done was called.
type fakeGroup struct {
	Group
	sources []Source
	done    chan Source
}

func (g *fakeGroup) Follow(_ context.Context, join func(Source)) error {
	for _, s := range g.sources {
		join(s)
	}
	return ErrEnded
}

func (g *fakeGroup) Done(s Source) { g.done <- s }

// TestFollowEach: FollowEach calls Done for a process when the function that join returned for it has ended. FollowEach
// waits until all these functions have ended.
func TestFollowEach(t *testing.T) {
	type source struct {
		Source
		_ int
	}
	first, second := &source{}, &source{}
	g := &fakeGroup{sources: []Source{first, second}, done: make(chan Source, 2)}
	hold, joined := make(chan struct{}), 0
	all, err := FollowEach(t.Context(), g, func(s Source) func() {
		joined++
		return func() {
			if s == first {
				<-hold
			}
		}
	})
	if !errors.Is(err, ErrEnded) || joined != 2 {
		t.Fatalf("%v, %d joined", err, joined)
	}
	if got := <-g.done; got != second {
		t.Error("the first is done while it works")
	}
	select {
	case <-all:
		t.Error("all are done while the first works")
	default:
	}
	close(hold)
	if <-all; <-g.done != first {
		t.Error("the first is not done")
	}
}
