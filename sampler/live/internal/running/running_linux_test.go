package running

import (
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
	"github.com/ddtop/ddtop/sampler/native/clock"
)

// TestStopWhileAReadHangs: if a read of the process's memory hangs, Stop returns an error after a time. Once the read
// has ended, Stop succeeds.
func TestStopWhileAReadHangs(t *testing.T) {
	x := &Run{quit: make(chan struct{}), done: make(chan struct{})}
	if err := x.Stop(); !errors.Is(err, errHangs) || x.On() {
		t.Errorf("%v, on: %v", err, x.On())
	}
	close(x.done)
	if err := x.Stop(); err != nil {
		t.Error(err)
	}
}

// TestExpensiveStacks: a stack that takes long to unwind leaves less time for other stacks. Even after a stack that
// takes very long, ddtop unwinds stacks again within two seconds.
func TestExpensiveStacks(t *testing.T) {
	x := &Run{of: Options{Hz: clock.Hz}, room: 100}
	for _, c := range []struct {
		took time.Duration
		left float64
	}{{stackTime / 10, 99}, {stackTime, 98}, {9 * stackTime, 89}, {time.Hour, -mostCPUs * clock.Hz}} {
		if x.spend(c.took); x.room != c.left {
			t.Errorf("room for %g after %v, want %g", x.room, c.took, c.left)
		}
	}
}

// TestMappingsThatCannotBeRead: if a process's mappings cannot be read, the Run does not end. The Run reads the
// mappings again soon, because the error can pass, and less often after each further error.
func TestMappingsThatCannotBeRead(t *testing.T) {
	if err := clock.Check(); err != nil {
		t.Skip(err)
	}
	const none = 1 << 22 // no process has this PID (PID_MAX_LIMIT)
	feed, err := clock.Follow(clock.Target{PID: none}, clock.Hz)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	x := &Run{feed: feed, stacks: stacknames.New(), of: Options{Hz: clock.Hz, Counts: new(sampler.NativeWatch),
		Subject: cstacks.Subject{Machine: "unknown"}}}
	for _, want := range []time.Duration{mapsEvery, 2 * mapsEvery, 4 * mapsEvery, 8 * mapsEvery, silentEvery, silentEvery} {
		x.mapsAgain = time.Time{}
		began := time.Now()
		if err := x.look(); err != nil || x.mapsAgain.Before(began.Add(want)) || x.mapsAgain.After(time.Now().Add(want)) {
			t.Errorf("%v, again %v after %v, want %v", err, x.mapsAgain.Sub(began), began, want)
		}
	}
}
