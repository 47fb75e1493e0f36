package probe

import "errors"

// Why exact mode can't be. Errors that are one of them say what was tried and what mends it.
var (
	// ErrNoCode: the Ruby has no place for a probe that is safe and cheap, or is of a kind that is not known.
	ErrNoCode = errors.New("exact mode can't watch this Ruby")
	// ErrKernel: the kernel is too old, was built without what is needed, or is locked down.
	ErrKernel = errors.New("exact mode can't be had from this kernel")
	// ErrRights: ddtop may not do what is needed.
	ErrRights = errors.New("no permission for exact mode")
	// ErrTranslated: something else than the CPU runs the process's code, or that could not be told. The code has no
	// breakpoints then, and a translator copies those that the kernel puts there.
	ErrTranslated = errors.New("its code may be run by a translator")
	// ErrNotPlaced: the kernel has taken the probes, but the target's memory does not have them.
	ErrNotPlaced = errors.New("the probes are not in the process's code")
)

// errPatched: something has changed the code in memory.
var errPatched = errors.New("its code was patched while it runs")

// MissingRights says which capabilities ddtop lacks for exact mode, and how to get them. It is an ErrRights; of those
// it is the one that sudo mends.
type MissingRights struct {
	// Lacks is a clause, "it lacks CAP_BPF", Help one, "run it with sudo".
	Lacks, Help string
}

func (e *MissingRights) Error() string { return ErrRights.Error() + ": " + e.Lacks + ": " + e.Help }

// Unwrap returns ErrRights.
func (e *MissingRights) Unwrap() error { return ErrRights }
