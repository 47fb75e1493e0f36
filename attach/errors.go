package attach

import (
	"errors"
	"fmt"
	"strings"
)

// Reasons why a process cannot be read. A *TargetError wraps them and gives the details.
var (
	// ErrNoProcess means that there is no process with the given PID. It is also the error if the number is the ID of a
	// thread.
	ErrNoProcess = errors.New("no such process")
	// ErrGone means that the process has ended since ddtop found it.
	ErrGone = errors.New("the process has ended")
	// ErrThreadGone means that a thread has ended, but its process has not.
	ErrThreadGone = errors.New("the thread has ended")
	// ErrReplaced means that the process runs another program now (exec). Everything learned about the old program is
	// invalid.
	ErrReplaced = errors.New("the process runs another program now")
	// ErrZombie means that the process has ended and freed its memory. It remains in the process list until its parent
	// reads its exit code.
	ErrZombie = errors.New("the process is a zombie")
	// ErrKernelThread means that the process is a thread of the kernel and has no memory of its own.
	ErrKernelThread = errors.New("a kernel thread")
	// ErrSelf means that the process is ddtop itself.
	ErrSelf = errors.New("that is ddtop itself")
	// ErrPermission means that the kernel refuses to let us read the process.
	ErrPermission = errors.New("no permission to read the process")
	// ErrNotLoaded means that the process has no Ruby yet, but may be about to start it. Another try in a moment can
	// succeed. After ErrNotRuby, another try would fail again.
	ErrNotLoaded = errors.New("no Ruby is loaded yet")
	// ErrNoAnswer means that the kernel did not answer about the process in time. Its memory is locked, or a disk
	// hangs.
	ErrNoAnswer = errors.New("it did not answer")
	// ErrFault means that ddtop itself has panicked while it read the process. An attacker can cause this with prepared
	// files or memory.
	ErrFault = errors.New("ddtop has failed at this process, by a fault of its own")
	// ErrExhausted means that ddtop could not read the process because ddtop or the machine has no descriptors or no
	// memory left. It proves nothing about the process.
	ErrExhausted = errors.New("it could not be looked at")
	// ErrLinuxOnly means that processes can be read on Linux only.
	ErrLinuxOnly = errors.New("reading a process works on Linux only")
	// ErrUnmapped means that the target has no memory at this address, or no readable memory.
	ErrUnmapped = errors.New("no memory at this address")
)

// TargetError says why a process can't be read.
type TargetError struct {
	PID int
	// Kind is one of the errors of this package, such as ErrGone.
	Kind error
	// Cause says why, in a clause without a full stop. It is empty if Kind says enough.
	Cause string
	// Help is a sentence with the command that helps. It is empty if there is none.
	Help string
	// Root is true if root of this machine may read the process, and the user can run ddtop as root with sudo.
	Root bool
	// Users are the users that occur in Cause, Help and Err. Programs are the names and paths of programs that occur
	// there. Package redact replaces both.
	Users, Programs []string
	// Err is the kernel's error. It is nil if there was none.
	Err error
}

// Error returns a text of the form "process 17: KIND: CAUSE (KERNEL). HELP".
func (e *TargetError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "process %d: %v", e.PID, e.Kind)
	if e.Cause != "" {
		b.WriteString(": " + e.Cause)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	if e.Help != "" {
		b.WriteString(". " + e.Help)
	}
	return b.String()
}

// Named returns the users and programs that the error's text names, so that package redact can replace them.
func (e *TargetError) Named() (users, programs []string) { return e.Users, e.Programs }

// Unwrap returns Kind and the kernel's error, if there is one.
func (e *TargetError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
