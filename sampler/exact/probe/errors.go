package probe

import "errors"

// Reasons why exact mode is not possible. An error that wraps one of them names what was tried and what helps.
var (
	// ErrNoCode means that the Ruby has no place for a probe that is safe and cheap, or is of a kind that is not known.
	ErrNoCode = errors.New("exact mode can't watch this Ruby")
	// ErrKernel means that the kernel is too old, was built without a needed option, or is locked down.
	ErrKernel = errors.New("exact mode can't be had from this kernel")
	// ErrRights means that ddtop lacks a right.
	ErrRights = errors.New("no permission for exact mode")
	// ErrTranslated means that a translator may run the process's code instead of the CPU. The kernel puts breakpoints
	// into the original code. The translated code has none, or only copies of them.
	ErrTranslated = errors.New("its code may be run by a translator")
	// ErrNotPlaced means that the kernel has accepted the probes, but the target's memory does not have them.
	ErrNotPlaced = errors.New("the probes are not in the process's code")
)

// errPatched means that the code in memory was changed.
var errPatched = errors.New("its code was patched while it runs")

// MissingRights names the capabilities that ddtop lacks for exact mode, and how to get them. It is the kind of
// ErrRights that sudo solves.
type MissingRights struct {
	// Lacks is a clause, "it lacks CAP_BPF", Help one, "run it with sudo".
	Lacks, Help string
}

func (e *MissingRights) Error() string { return ErrRights.Error() + ": " + e.Lacks + ": " + e.Help }

// Unwrap returns ErrRights.
func (e *MissingRights) Unwrap() error { return ErrRights }
