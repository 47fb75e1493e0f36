package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live"
	"golang.org/x/sys/unix"
)

const (
	// backgroundWait limits how long ddtop searches for a Ruby among the processes that a program left running when it
	// ended. A Ruby that was just started needs some time to boot.
	backgroundWait = 5 * time.Second
	// reapEvery is how often ddtop collects the exit codes of ended processes that it has adopted from the program.
	reapEvery = time.Second
)

// errLeftNoRuby is returned for a program that ended with exit code 0 and left processes running. ddtop cannot read any
// of these processes as a Ruby.
var errLeftNoRuby = errors.New("the program ended and left processes running, none of them a Ruby that ddtop can read")

// Reap collects the exit codes of ended processes that ddtop has adopted from the program. Otherwise these processes
// would stay as zombies. It goes on until stop is called.
func (c *Command) Reap() (stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	go run.Every(ctx, reapEvery, func(time.Time) { adopted(c.PID(), c.ownGroup) })
	return stop
}

// LeftBehind returns the processes that the program left running when it ended with exit code 0. It is nil if the
// program still runs, has failed, or left no process.
func (c *Command) LeftBehind() []int {
	if c.Running() || c.err != nil {
		return nil
	}
	return adopted(c.PID(), c.ownGroup)
}

// OpenBackground opens the Ruby that the ended program left running in the background. It returns nil if the program
// left no process.
func (c *Command) OpenBackground(ctx context.Context, opts live.Options) (*live.Source, error) {
	end := time.Now().Add(backgroundWait)
	for {
		left := c.LeftBehind()
		if len(left) == 0 {
			return nil, nil
		}
		var why error
		for _, pid := range left {
			src, err := live.Open(ctx, pid, opts)
			if errors.Is(err, attach.ErrNotRuby) {
				if src = openBelow(ctx, pid, opts); src != nil {
					err = nil
				}
			}
			if err == nil {
				return src, nil
			}
			why = errors.Join(why, err)
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%w (%d, the first is process %d: ddtop --children -p %d waits for one): %w", errLeftNoRuby, len(left), left[0], left[0], why)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(slowestLook):
		}
	}
}

// SayBackground prints that a program went into the background, and which process ddtop follows now.
func SayBackground(std run.Streams, c *Command, src *live.Source) {
	std.Say("%s went into the background: ddtop follows process %d, whose end it waits for. Signals end ddtop and leave the program running; "+
		"ddtop -p %d attaches again", std.Redact.Program(c.cmd.Path), src.Process().PID, src.Process().PID)
}

// adopted returns the PIDs of ddtop's living children, except one PID, the parameter but. It collects the exit codes of
// children that have ended. If the program has its own process group, adopted ignores children in ddtop's group,
// because ddtop itself may have started these.
func adopted(but int, ownGroup bool) []int {
	children, err := kernel.Children(os.Getpid())
	if err != nil {
		return nil
	}
	var living []int
	for _, pid := range children {
		if pid == but {
			continue
		}
		if group, err := unix.Getpgid(pid); ownGroup && (err != nil || group == unix.Getpgrp()) {
			continue
		}
		switch id, err := kernel.Identify(pid); {
		case err != nil:
		case !id.Ended:
			living = append(living, pid)
		default:
			// Wait4 is called only for processes that have ended. If ddtop traces a living process for --pause, Wait4
			// could mistake a stop of this process for its end.
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
	return living
}
