package sampler

import (
	"context"
	"errors"
	"testing"
)

// fakeGroup hands out Sources and records which of them are Done.
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

// TestFollowEach: a process is Done when the function that join returned for it has ended. FollowEach waits for these
// functions of all processes.
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
