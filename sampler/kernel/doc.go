// Package kernel reads the Linux kernel's information about a process and its threads. For a thread it reads CPU time,
// run delay, the system call in which it sleeps, and the descriptor that it waits for. For a process it reads counters
// of the process and of its cgroup. The package does not depend on Ruby.
//
// All information comes from /proc, and for sockets from pidfd_getfd(2). The package writes nothing to the target and
// does not stop it. To ask about a socket, ddtop holds it open for the few microseconds of getpeername(2). The files
// task/TID/syscall and fd/ and the calls pidfd_getfd and process_vm_readv need the same permission as ptrace
// (PTRACE_MODE_ATTACH or READ).
//
// The parsers are portable. Functions that ask the kernel work only on Linux, and return ErrUnsupported on other
// systems.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

var (
	// ErrGone means that the thread or process has ended, or that the descriptor was closed, before or during the
	// reading.
	ErrGone = errors.New("it has ended")
	// errPermission means that the kernel does not permit the reading.
	errPermission = errors.New("not permitted")
	// ErrUnsupported means that this system is not Linux, or its kernel does not have the file or call.
	ErrUnsupported = errors.New("not supported here")
	// errFormat means that a file does not have the format that the kernel documents.
	errFormat = errors.New("unexpected contents")
)

// Error names the failed operation, the file, and the kernel's answer. errors.Is matches ErrGone, errPermission,
// ErrUnsupported or errFormat, and also the kernel's own error number.
type Error struct {
	// Op is the operation that failed: "open", "read", "readlink", "pidfd_open".
	Op string
	// Path is the file, or the process if the operation has no file: "/proc/12/task/13/syscall", "process 12".
	Path string
	// Err is the kernel's answer.
	Err error
}

// Error names the file, the kernel's answer and, if there is one, a remedy.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
	if errors.Is(e, errPermission) {
		s += " (it needs the same permission as reading the target's memory: run ddtop as root or with CAP_SYS_PTRACE)"
	}
	return s
}

// Unwrap returns the kernel's answer.
func (e *Error) Unwrap() error { return e.Err }

// Is is for errors.Is. It compares the kernel's error number with the meanings of this package's errors.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrGone:
		// For an ended task, reading an open /proc file returns ESRCH, and opening one returns ENOENT (fs/proc/base.c).
		return errors.Is(e.Err, syscall.ESRCH) || errors.Is(e.Err, fs.ErrNotExist) || errors.Is(e.Err, syscall.EBADF)
	case errPermission:
		return errors.Is(e.Err, fs.ErrPermission)
	case ErrUnsupported:
		return errors.Is(e.Err, syscall.ENOSYS)
	}
	return false
}
