package probe

import "errors"

// Reasons why exact mode is not possible. Errors that wrap one of them describe what was tried and what helps.
var (
	// ErrNoCode means that ddtop does not know this kind of Ruby, or that its code has no safe and cheap place for a
	// probe.
	ErrNoCode = errors.New("exact mode can't watch this Ruby")
	// ErrKernel means that the kernel is too old, was built without a needed option, or is locked down.
	ErrKernel = errors.New("exact mode does not work with this kernel")
	// ErrRights means that ddtop lacks a permission.
	ErrRights = errors.New("no permission for exact mode")
	// ErrTranslated means that the process's code may be run by a translator, such as valgrind, and not by the CPU
	// itself. A translator runs a copy of the code, but the kernel puts breakpoints into the original. So the copy
	// would lack the breakpoints, or contain copies of them that have no effect.
	ErrTranslated = errors.New("its code may be run by a translator")
	// ErrNotPlaced means that the kernel has accepted the probes, but they are not in the target's memory.
	ErrNotPlaced = errors.New("the probes are not in the process's code")
)

// errPatched means that the code in memory differs from the file.
var errPatched = errors.New("its code was patched while it runs")

// MissingRights is an error with the capabilities that ddtop lacks for exact mode, and how to get them. It is an
// ErrRights that the user can solve with sudo.
type MissingRights struct {
	// Lacks and Help are clauses, for example "it lacks CAP_BPF" and "run it with sudo".
	Lacks, Help string
}

func (e *MissingRights) Error() string { return ErrRights.Error() + ": " + e.Lacks + ": " + e.Help }

// Unwrap returns ErrRights.
func (e *MissingRights) Unwrap() error { return ErrRights }
