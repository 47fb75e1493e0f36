package live

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// TestNotFollowed: if ddtop stops before it follows a process, the error must be errLateSwitches. It must not be an
// error of Go's context package. If following failed with errSwitches, the error must be errSwitches.
func TestNotFollowed(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	if err := notFollowed(ctx, attach.ErrNoAnswer); err != attach.ErrNoAnswer {
		t.Errorf("before the end: %v", err)
	}
	stop()
	for _, err := range []error{ctx.Err(), attach.ErrNoAnswer, fmt.Errorf("reading: %w", context.Canceled)} {
		if got := notFollowed(ctx, err); got != errLateSwitches {
			t.Errorf("%v: %v", err, got)
		}
	}
	if err := notFollowed(ctx, errSwitches); !errors.Is(err, errSwitches) {
		t.Error(err)
	}
	if err := notFollowed(ctx, nil); err != nil {
		t.Error(err)
	}
}
