package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/program"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/live"
)

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
	c, err := program.Start(args, std, false)
	if err != nil {
		return err
	}
	stop := c.ForwardSignals()
	defer stop()
	defer c.Reap()()
	// The signals that end ctx are the program's to obey; ddtop ends when it does.
	unended := context.WithoutCancel(ctx)
	if f.children {
		if err := measureCommands(unended, c, f, std); err != nil {
			std.SayErr(err)
		}
	}
	measured := 0
	for ; c.Running() && !f.children; measured++ {
		if err := measureCommand(unended, c, f, std, measured > 0); err != nil {
			if measured == 0 && len(c.LeftBehind()) == 0 || !errors.Is(err, program.ErrEndedBefore) {
				std.SayErr(err)
			}
			break
		}
	}
	exit := c.Exit()
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
func measureBackground(ctx context.Context, c *program.Command, f *rootFlags, std run.Streams, again bool) (found bool, err error) {
	t := f.target
	src, err := c.OpenBackground(ctx, t.attaching(layoutProgress(t.names)))
	if err != nil || src == nil {
		return false, err
	}
	defer src.Close()
	program.SayBackground(std, c, src)
	if err := t.exact.Begin(ctx, src); err != nil {
		return false, err
	}
	return true, f.printStat(ctx, src, std, again)
}

// measureCommand measures one VM of the program from its start to its end, and prints the table, apart from
// one before it.
func measureCommand(ctx context.Context, c *program.Command, f *rootFlags, std run.Streams, again bool) error {
	t := f.target
	src, err := c.Attach(ctx, t.attaching(layoutProgress(t.names)), &t.exact)
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
		return program.ErrEndedBefore
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
