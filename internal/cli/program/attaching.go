package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// firstLook and slowestLook are the shortest and the longest interval at which ddtop checks whether a started
	// program has a Ruby VM yet.
	firstLook   = 2 * time.Millisecond
	slowestLook = 200 * time.Millisecond
	// maxDescent limits how many generations of child processes ddtop searches for a Ruby. For example, a shell may
	// start bundle, which starts the server.
	maxDescent = 8
	// maxSiblings limits how many processes of each generation ddtop searches for a Ruby.
	maxSiblings = 64
)

// ErrNoPidfd is returned for --pause if ddtop starts the program and the kernel has no pidfds (descriptors of
// processes). On such a kernel, ddtop can see the end of a child only by collecting the child's exit code.
var ErrNoPidfd = errors.New("the program runs on without being watched: --pause with a program that ddtop starts needs Linux 5.4; use --pause with -p PID")

// ErrEndedBefore is returned if a started program ended before ddtop had found a Ruby VM to measure.
var ErrEndedBefore = errors.New("the program ended before it had started a Ruby VM: nothing was measured")

// Attach waits until a Ruby VM runs in the program or in a descendant of it, and opens this process. If x is not nil
// and the user wants exact mode, Attach also switches exact mode on.
func (c *Command) Attach(ctx context.Context, opts live.Options, x *exact.Flags) (*live.Source, error) {
	if opts.Pause {
		if !c.Pausable {
			return nil, ErrNoPidfd
		}
		exact.StayAwake()
	}
	opts.BootWait = firstLook
	for wait := firstLook; ; wait = min(2*wait, slowestLook) {
		src, err := live.Open(ctx, c.PID(), opts)
		if err != nil && wait == slowestLook && errors.Is(err, attach.ErrNotRuby) {
			if src = openBelow(ctx, c.PID(), opts); src != nil {
				err = nil
			}
		}
		if err == nil {
			if err := x.Begin(ctx, src); err != nil {
				return nil, fmt.Errorf("the program runs on without being watched: %w", errors.Join(err, src.Close()))
			}
			return src, nil
		}
		// During exec and exit the kernel refuses access to a process for a moment. So ddtop ignores such an error at
		// first. It returns the error only when the checks have reached their longest interval.
		if wait == slowestLook && run.IsAny(err, attach.ErrPermission, attach.ErrTraced, attach.ErrLinuxOnly, layout.ErrUnknownRelease, live.ErrPauseLimit) {
			return nil, fmt.Errorf("the program runs on without being watched: %w", err)
		}
		select {
		case <-c.Done:
			return nil, ErrEndedBefore
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// openBelow opens the first Ruby among the descendants of pid. It searches the children first, then their children, and
// so on. It returns nil if there is no Ruby.
func openBelow(ctx context.Context, pid int, opts live.Options) *live.Source {
	generation := []int{pid}
	for range maxDescent {
		var next []int
		for _, parent := range generation {
			children, err := kernel.Children(parent)
			if err != nil {
				continue // the process has ended in the meantime
			}
			next = append(next, children...)
		}
		if generation = next[:min(len(next), maxSiblings)]; len(generation) == 0 {
			return nil
		}
		for _, child := range generation {
			if src, err := live.Open(ctx, child, opts); err == nil {
				return src
			}
		}
	}
	return nil
}
