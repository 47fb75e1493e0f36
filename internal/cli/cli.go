// Package cli is ddtop's command line: commands, flags, exit codes, and the sentences about errors. Each command has
// one file.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/program"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/cli/sudo"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// Main runs the command in args (without the program's name) and returns the exit code. It writes each error as one
// sentence to std.Err. SIGINT, SIGTERM and SIGHUP cancel ctx. A measurement then finishes early and writes its results.
// At a terminal, SIGQUIT and SIGABRT also cancel ctx, so that a screen can restore the terminal. A second SIGQUIT or
// SIGABRT makes Go dump its goroutines.
func Main(ctx context.Context, args []string, std run.Streams) int {
	boundMemory()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	dumping := []os.Signal{syscall.SIGQUIT, syscall.SIGABRT}
	held := std.Terminal && !wraps(args) // in `ddtop -- command`, the command gets SIGQUIT instead (forwardSignals)
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
	// cobra ignores write errors when it prints help. The writer remembering keeps the first error.
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
	var asRoot []string
	if !wraps(args) {
		asRoot = sudo.NameCommand(err, args, command, std)
	}
	std.SayErr(err)
	if err := sudo.Offer(ctx, asRoot, std, configPath()); err != nil {
		std.SayErr(err)
	}
	if command == root && wraps(args) {
		return exitWrapper
	}
	return exitCode(err)
}

// remembering is a writer that remembers the first error of a write.
type remembering struct {
	to  io.Writer
	err error
}

// Write writes to the underlying writer.
func (r *remembering) Write(b []byte) (int, error) {
	n, err := r.to.Write(b)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// wraps reports whether the arguments have the form `ddtop -- command`, which starts a command.
func wraps(args []string) bool {
	i := slices.Index(args, "--")
	return i >= 0 && i < len(args)-1
}

// noArgs returns an error if a command gets arguments. Its text names the commands that accept processes.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return flags.Usagef("%s takes no argument %q: processes are named to ddtop itself, dump, stat and record", cmd.CommandPath(), args[0])
	}
	return nil
}

// takes returns a function that checks that a command gets n arguments. The parameter what describes the arguments in
// the error.
func takes(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return flags.Usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// memoryAim is a size of ddtop's own memory, in bytes. Above it, Go collects garbage more often. The data about a
// process is usually smaller (limits: docs/internals/reading.md). Without memoryAim, garbage that is not freed yet
// could use half as much memory again as the data.
const memoryAim = 400 << 20

// boundMemory sets memoryAim, unless GOMEMLIMIT is set.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryAim)
	}
}

// screenGarbage is Go's GC percentage while ddtop shows a process: how much garbage may grow, in percent of the live
// data. Go's default is 100. The screen makes little garbage, and a machine in trouble often lacks memory.
const screenGarbage = 30

// boundGarbage sets screenGarbage, unless GOGC is set.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(screenGarbage)
	}
}

// The exit codes. Scripts rely on them.
const (
	// exitDone means success.
	exitDone = 0
	// exitFailed means any failure that has no exit code of its own.
	exitFailed = 1
	// exitUsage means wrong use: an unknown flag, a missing PID, no terminal for the screen.
	exitUsage = 2
	// exitPermission means that the kernel does not let ddtop read the process, or put probes into it (--exact).
	exitPermission = 3
	// exitNotReadable means that ddtop found no Ruby to read: no such process, another language, an unknown release.
	exitNotReadable = 4
	// exitWrapper means that ddtop itself failed in `ddtop -- command`. Any other code is the command's exit code.
	exitWrapper = 125
)

const exitCodesHelp = `Exit codes:
  0    done
  1    failed
  2    wrong use
  3    no permission to read the process
  4    not a Ruby process that can be read
  125  ddtop itself failed in "ddtop -- command"; all other codes are the command's (128+n: signal n)`

func exitCode(err error) int {
	var usage *flags.UsageError
	var checks *doctorError
	switch {
	case errors.As(err, &checks): // failed checks decide, even if the error wraps a failure with another exit code
		return exitFailed
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, attach.ErrPermission), errors.Is(err, attach.ErrTraced), errors.Is(err, live.ErrPauseLimit), errors.Is(err, probe.ErrRights),
		errors.Is(err, bpf.ErrRights):
		return exitPermission
	case run.IsAny(err, attach.ErrNoProcess, attach.ErrZombie, attach.ErrKernelThread, attach.ErrSelf, attach.ErrNotRuby,
		attach.ErrNotLoaded, attach.ErrNoAnswer, attach.ErrGone, attach.ErrReplaced, layout.ErrUnknownRelease, ruby.ErrLayout):
		return exitNotReadable
	}
	return exitFailed
}
