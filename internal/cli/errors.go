package cli

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// The exit codes, a contract with scripts.
const (
	// exitDone: done.
	exitDone = 0
	// exitFailed: failed.
	exitFailed = 1
	// exitUsage: wrong use: an unknown flag, a missing PID, no terminal for the screen.
	exitUsage = 2
	// exitPermission: the kernel doesn't let us read the process, or follow it exactly.
	exitPermission = 3
	// exitNotReadable: not a Ruby process that can be read: no such process, another language, an unknown release.
	exitNotReadable = 4
	// exitWrapper: `ddtop -- command` failed by itself; every other code is the command's.
	exitWrapper = 125
)

const exitCodesHelp = `Exit codes:
  0    done
  1    failed
  2    wrong use
  3    no permission to read the process
  4    not a Ruby process that can be read
  125  ddtop itself failed in "ddtop -- command"; all other codes are the command's (128+n: signal n)`

// usageError is an error in how ddtop was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// commandExit carries a started command's exit code to ddtop's own. It is not printed.
type commandExit struct{ code int }

func (e *commandExit) Error() string { return fmt.Sprintf("the command ended with code %d", e.code) }

// exitCode chooses the exit code for an error.
func exitCode(err error) int {
	var usage *usageError
	var checks *doctorError
	switch {
	case errors.As(err, &checks): // whatever the failure that it wraps
		return exitFailed
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, attach.ErrPermission), errors.Is(err, attach.ErrTraced), errors.Is(err, live.ErrPauseLimit), errors.Is(err, probe.ErrRights),
		errors.Is(err, bpf.ErrRights):
		return exitPermission
	case isAny(err, attach.ErrNoProcess, attach.ErrZombie, attach.ErrKernelThread, attach.ErrSelf, attach.ErrNotRuby,
		attach.ErrNotLoaded, attach.ErrNoAnswer, attach.ErrGone, attach.ErrReplaced, layout.ErrUnknownRelease, ruby.ErrLayout):
		return exitNotReadable
	}
	return exitFailed
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// printable replaces what could move the cursor or hide text on a terminal.
func printable(s string) string { return flamegraph.Printable(s) }
