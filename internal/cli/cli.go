// Package cli is ddtop's command line: commands, flags, exit codes, and the sentences that say what went wrong. One
// file a command.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/program"
	"github.com/ddtop/ddtop/internal/cli/run"
)

// Main runs the command that args (without the program's name) ask for and returns the exit code. Errors go to
// std.Err, one sentence each. SIGINT, SIGTERM and SIGHUP end ctx: a measurement then finishes early and writes what it
// has. So do SIGQUIT and SIGABRT at a terminal, which a screen has to give back; a second one makes Go's dump of goroutines.
func Main(ctx context.Context, args []string, std run.Streams) int {
	boundMemory()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	dumping := []os.Signal{syscall.SIGQUIT, syscall.SIGABRT}
	held := std.Terminal && !wraps(args) // a program that is wrapped gets its SIGQUIT (forwardSignals)
	if held {
		signals = append(signals, dumping...)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	if held {
		context.AfterFunc(ctx, func() { signal.Reset(dumping...) })
	}

	std.Redact, std.Own, std.Chosen = flags.NewRedaction(args), new(flags.OwnCode), new(run.Chosen)
	root := newRoot(std)
	root.SetArgs(args)
	root.SetIn(std.In)
	// The library that prints help texts does not look whether that went well.
	help := &remembering{to: std.Out}
	root.SetOut(help)
	root.SetErr(std.Err)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = help.err
	}
	if err == nil {
		return exitDone
	}
	var passed *program.Exit
	if errors.As(err, &passed) {
		return passed.Code
	}
	asRoot := nameCommand(err, args, command, std)
	std.SayErr(err)
	if err := offerRoot(ctx, asRoot, std); err != nil {
		std.SayErr(err)
	}
	if command == root && wraps(args) {
		return exitWrapper
	}
	return exitCode(err)
}

// remembering is a writer that keeps the first error.
type remembering struct {
	to  io.Writer
	err error
}

// Write writes to the other writer.
func (r *remembering) Write(b []byte) (int, error) {
	n, err := r.to.Write(b)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// wraps reports whether the arguments hold a command to start.
func wraps(args []string) bool {
	i := slices.Index(args, "--")
	return i >= 0 && i < len(args)-1
}

// noArgs refuses arguments with words that fit commands without any.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return flags.Usagef("%s takes no argument %q: processes are named to ddtop itself, dump, stat and record", cmd.CommandPath(), args[0])
	}
	return nil
}
