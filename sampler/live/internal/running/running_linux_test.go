package running

import (
	"errors"
	"testing"
)

// TestStopWhileAReadHangs: if a read of the process's memory never comes back, Stop gives up, again and again.
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
