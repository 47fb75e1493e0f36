package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// maxAncestors bounds how many ancestors of ddtop are searched for a shell.
const maxAncestors = 64

// canSuspend reports whether ctrl-z (SIGTSTP) stops ddtop and a shell can continue it. It is false with --pause, which
// ignores SIGTSTP. It is also false if no shell with job control started ddtop (docker exec, ssh HOST ddtop), because
// the kernel then drops the signal.
func canSuspend() bool {
	if signal.Ignored(syscall.SIGTSTP) {
		return false
	}
	return shellAbove(os.Getpid(), processOf)
}

// shellAbove reports whether pid has an ancestor in another process group of the same session, such as a shell. If so,
// pid's group is not orphaned (setpgid(2)), and the shell can continue it after a stop.
func shellAbove(pid int, of func(pid int) (parent, group, session int, err error)) bool {
	parent, group, session, err := of(pid)
	for range maxAncestors {
		if err != nil || parent <= 0 {
			return false
		}
		var g, s int
		if parent, g, s, err = of(parent); err != nil || s != session {
			return false
		}
		if g != group {
			return true
		}
	}
	return false
}

// processOf reads a process's parent, group and session from /proc/PID/stat.
func processOf(pid int) (parent, group, session int, err error) {
	var state string
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	// The process's name is in brackets before these fields. The name itself can contain brackets.
	if _, err := fmt.Sscanf(string(b[bytes.LastIndexByte(b, ')')+1:]), " %1s %d %d %d", &state, &parent, &group, &session); err != nil {
		return 0, 0, 0, fmt.Errorf("reading /proc/%d/stat: %w", pid, err)
	}
	return parent, group, session, nil
}
