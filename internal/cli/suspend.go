package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// maxAncestors bounds the walk to the shell.
const maxAncestors = 64

// canSuspend reports whether SIGTSTP stops ddtop and a shell will continue it. It returns false with --pause, which
// ignores SIGTSTP. It also returns false if no shell with job control has started ddtop (docker exec, ssh HOST ddtop),
// because the kernel then drops the signal.
func canSuspend() bool {
	if signal.Ignored(syscall.SIGTSTP) {
		return false
	}
	return shellAbove(os.Getpid(), processOf)
}

// shellAbove reports whether a process of another group and of the same session is above pid's group. If there is one,
// the group is not orphaned (setpgid(2)).
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
	// The name, in brackets, can hold anything.
	if _, err := fmt.Sscanf(string(b[bytes.LastIndexByte(b, ')')+1:]), " %1s %d %d %d", &state, &parent, &group, &session); err != nil {
		return 0, 0, 0, fmt.Errorf("reading /proc/%d/stat: %w", pid, err)
	}
	return parent, group, session, nil
}
