package attach

import (
	"bytes"
	"fmt"
	"strconv"
)

// CallFrom returns the address from which a sleeping native thread called the kernel. It is the address of the
// instruction after the call. ok is false if the thread runs, or is stopped outside of a system call
// (proc_pid_syscall(5)). The error is ErrThreadGone if the thread has ended but its process has not.
func (p *facts) CallFrom(tid int32) (at Address, ok bool, err error) {
	text, err := p.readProc("task/" + strconv.Itoa(int(tid)) + "/syscall")
	if isGone(err) && p.stillThere() == nil {
		return 0, false, fmt.Errorf("thread %d: %w", tid, ErrThreadGone)
	}
	if err != nil {
		return 0, false, p.lost(err)
	}
	return parseCallFrom(text)
}

// parseCallFrom returns PC (the program counter), which is the last field of /proc/PID/task/TID/syscall. The file's
// text is "running" if the thread runs, and "-1 SP PC" if it is stopped outside of a system call. In a call, the text
// is the call's number, six arguments, SP and PC.
func parseCallFrom(text []byte) (at Address, ok bool, err error) {
	f := bytes.Fields(text)
	const fields = 9
	if len(f) != fields {
		return 0, false, nil
	}
	pc, err := strconv.ParseUint(string(f[fields-1]), 0, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%q does not end with an address", text)
	}
	return Address(pc), true, nil
}
