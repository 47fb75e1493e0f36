package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// firstLook and slowestLook are the shortest and longest time between two looks whether a started program's VM
	// is up.
	firstLook   = 2 * time.Millisecond
	slowestLook = 200 * time.Millisecond
	// maxDescent is how many generations below the started program a Ruby is looked for: a shell that starts bundle that
	// starts the server.
	maxDescent = 8
	// maxSiblings bounds how many processes of a generation are looked at.
	maxSiblings = 64
)

// errNoPidfd is returned for --pause on a kernel that can't tell of a child's end without asking for its exit code.
var errNoPidfd = errors.New("the program runs on without being watched: --pause with a program that ddtop starts needs Linux 5.4; use --pause with -p PID")

// errEndedBefore is returned when a started program ended before it could be measured.
var errEndedBefore = errors.New("the program ended before it had started a Ruby VM: nothing was measured")

// wrap starts a program and watches it.
func wrap(ctx context.Context, args []string, f *rootFlags, std run.Streams) error {
	if std.Terminal {
		return wrapWithScreen(ctx, args, f, std)
	}
	return wrapWithoutScreen(ctx, args, f, std)
}

// wrapWithoutScreen starts a program, measures each Ruby VM that it starts, prints stat's table of each to standard
// error, and passes the program's exit code on.
func wrapWithoutScreen(ctx context.Context, args []string, f *rootFlags, std run.Streams) error {
	c, err := startCommand(args, std, false)
	if err != nil {
		return err
	}
	stop := c.forwardSignals()
	defer stop()
	defer c.reap()()
	// The signals that end ctx are the program's to obey; ddtop ends when it does.
	unended := context.WithoutCancel(ctx)
	if f.children {
		if err := measureCommands(unended, c, f, std); err != nil {
			std.SayErr(err)
		}
	}
	measured := 0
	for ; c.running() && !f.children; measured++ {
		if err := measureCommand(unended, c, f, std, measured > 0); err != nil {
			if measured == 0 && len(c.leftBehind()) == 0 || !errors.Is(err, errEndedBefore) {
				std.SayErr(err)
			}
			break
		}
	}
	exit := c.exit()
	for ; ctx.Err() == nil; measured++ { // what is in the background obeys nobody at the terminal: signals end ddtop
		found, err := measureBackground(ctx, c, f, std, measured > 0 || f.children)
		if err != nil {
			std.SayErr(err)
		}
		if err != nil || !found {
			break
		}
	}
	return exit
}

// measureBackground measures the Ruby that the program left behind, until it or ctx ends; false: there is none.
func measureBackground(ctx context.Context, c *command, f *rootFlags, std run.Streams, again bool) (found bool, err error) {
	t := f.target
	src, err := c.openBackground(ctx, t.attaching(layoutProgress(t.names)))
	if err != nil || src == nil {
		return false, err
	}
	defer src.Close()
	sayBackground(std, c, src)
	if err := t.exact.Begin(ctx, src); err != nil {
		return false, err
	}
	return true, f.printStat(ctx, src, std, again)
}

// measureCommand measures one VM of the program from its start to its end, and prints the table, apart from
// one before it.
func measureCommand(ctx context.Context, c *command, f *rootFlags, std run.Streams, again bool) error {
	t := f.target
	src, err := c.attach(ctx, t, layoutProgress(t.names))
	if err != nil {
		return err
	}
	defer src.Close()
	return f.printStat(ctx, src, std, again)
}

// printStat measures a process until it or ctx ends, and prints the table, apart from one before it.
func (f *rootFlags) printStat(ctx context.Context, src *live.Source, std run.Streams, again bool) error {
	stat, _, err := measureStat(ctx, src, run.Unlimited, f.judgement())
	if errors.Is(err, run.ErrNothing) {
		return errEndedBefore
	}
	if err != nil {
		return err
	}
	run.SayNotes(std, src, "")
	if again {
		fmt.Fprintln(std.Err)
	}
	return export.WriteStat(std.Err, stat)
}

// attach waits until a Ruby VM is up in the program or in one that it started, and opens it. progress is told how far the
// reading of debug information is.
func (c *command) attach(ctx context.Context, t target, progress func(path string, done, total int)) (*live.Source, error) {
	if t.pause {
		if !c.pausable {
			return nil, errNoPidfd
		}
		exact.StayAwake()
	}
	opts := t.attaching(progress)
	opts.BootWait = firstLook
	for wait := firstLook; ; wait = min(2*wait, slowestLook) {
		src, err := live.Open(ctx, c.pid(), opts)
		if err != nil && wait == slowestLook && errors.Is(err, attach.ErrNotRuby) {
			if src = openBelow(ctx, c.pid(), opts); src != nil {
				err = nil
			}
		}
		if err == nil {
			if err := t.exact.Begin(ctx, src); err != nil {
				return nil, fmt.Errorf("the program runs on without being watched: %w", errors.Join(err, src.Close()))
			}
			return src, nil
		}
		// Within exec and exit the kernel refuses for a moment: believed when it lasts.
		if wait == slowestLook && isAny(err, attach.ErrPermission, attach.ErrTraced, attach.ErrLinuxOnly, layout.ErrUnknownRelease, live.ErrPauseLimit) {
			return nil, fmt.Errorf("the program runs on without being watched: %w", err)
		}
		select {
		case <-c.done:
			return nil, errEndedBefore
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// openBelow opens the first Ruby among the processes below one, nearest generation first; nil: there is none.
func openBelow(ctx context.Context, pid int, opts live.Options) *live.Source {
	generation := []int{pid}
	for range maxDescent {
		var next []int
		for _, parent := range generation {
			children, err := kernel.Children(parent)
			if err != nil {
				continue // it has ended meanwhile
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
