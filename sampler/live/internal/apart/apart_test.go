package apart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// TestApart: if the work returns an error, panics or calls Goexit, the caller of Do does the same. If the work does not
// return, Do abandons it. Samples that the abandoned work emits later do not get through.
func TestApart(t *testing.T) {
	l := NewLane(1)
	if err := l.Do(t.Context(), func() error { return os.ErrClosed }, nil); err != os.ErrClosed {
		t.Error(err)
	}
	func() {
		defer func() {
			if r := fmt.Sprint(recover()); !strings.Contains(r, "a bug") || !strings.Contains(r, "TestApart") {
				t.Errorf("recovered %.200s", r)
			}
		}()
		_ = l.Do(t.Context(), func() error { panic("a bug") }, nil)
	}()
	left := make(chan bool)
	go func() {
		defer close(left)
		_ = l.Do(t.Context(), func() error { runtime.Goexit(); return nil }, nil)
		left <- true
	}()
	if <-left {
		t.Error("it went on behind Goexit")
	}

	ctx, cancel := context.WithCancel(t.Context())
	back, ended := make(chan struct{}), make(chan struct{})
	var out Door
	samples := 0
	err := l.Do(ctx, func() error {
		defer close(ended)
		cancel()
		<-back
		out.Emit(func(*sampler.Sample) { samples++ }, nil)
		return nil
	}, out.Close)
	if !errors.Is(err, attach.ErrNoAnswer) {
		t.Errorf("left with %v", err)
	}
	if err := l.Do(t.Context(), func() error { return nil }, nil); !errors.Is(err, attach.ErrNoAnswer) {
		t.Errorf("while the work goes on: %v", err)
	}
	close(back)
	<-ended
	if samples != 0 {
		t.Error("a sample came after it was left")
	}
	for l.Do(t.Context(), func() error { return nil }, nil) != nil { // until the abandoned work has ended
		time.Sleep(time.Millisecond)
	}
}
