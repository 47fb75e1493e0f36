package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/attach"
)

// Children returns the PIDs of a process's child processes in ascending order, zombies included. It reads
// /proc/PID/task/*/children of every thread, because any thread can have forked. If the kernel lacks this file (it
// needs CONFIG_PROC_CHILDREN), it reads the parent of every process.
func Children(pid int) ([]int, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	defer closeFD(dir)
	tids, err := listNumbers(dir, "task", path+"/task", nil)
	if err != nil {
		return nil, err
	}
	var pids []int
	read := 0
	for _, tid := range tids {
		name := "task/" + strconv.Itoa(int(tid)) + "/children"
		fd, err := openAt(dir, name)
		if err != nil {
			if errors.Is(&Error{Err: err}, ErrGone) {
				continue // the thread has ended, or the kernel has no such file
			}
			return nil, &Error{"open", path + "/" + name, err}
		}
		b, err := readAll(fd, path+"/"+name)
		closeFD(fd)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		read++
		pids = append(pids, parsePIDs(b)...)
	}
	if read == 0 {
		return childrenByParent(pid)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// parsePIDs reads numbers with blanks between them.
func parsePIDs(b []byte) []int {
	var out []int
	for f := range bytes.FieldsSeq(b) {
		if n, ok := parseInt32(string(f)); ok {
			out = append(out, int(n))
		}
	}
	return out
}

// childrenByParent finds the children of the process pid: it reads the parent of every process on the machine.
func childrenByParent(pid int) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var out []int
	var buf [1024]byte
	for _, p := range all {
		name := fmt.Sprintf("/proc/%d/stat", p)
		b, err := readWhole(noFD, name, name, buf[:])
		if err != nil {
			continue // the process has ended, or is hidden (hidepid)
		}
		if s, ok := parseStat(b); ok && s.ppid == int64(pid) {
			out = append(out, p)
		}
	}
	return out, nil
}

// Identity distinguishes a process from all others and says what runs in it.
type Identity struct {
	PID, Parent int
	// StartTicks is field 22 of /proc/PID/stat, in ticks of 10 ms since boot. It changes if the PID is used again.
	StartTicks uint64
	// Ended reports whether all threads have ended, so that the process is a zombie.
	Ended bool
	// Comm is the process's name in the kernel, at most 15 bytes. Exe is the path of its program in its own mount
	// namespace. An exec changes both. Exe is empty for kernel threads, and if ddtop may not read it.
	Comm, Exe string
}

// SettleTime is how old a process must be before ddtop opens it. A younger process may be a copy of its parent that is
// about to call exec.
const SettleTime = 100 * time.Millisecond

// Age returns how long ago the process started, with a resolution of 10 ms.
func (id *Identity) Age() time.Duration {
	const tick = time.Second / 100 // USER_HZ is 100 on x86_64 and aarch64
	return max(0, SinceBoot()-time.Duration(id.StartTicks)*tick)
}

// Identify reads a process's Identity from /proc. Its errors are *Error: ErrGone when there is no such process.
func Identify(pid int) (Identity, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return Identity{}, &Error{"open", path, err}
	}
	defer closeFD(dir)
	var buf [1024]byte
	b, err := readWhole(dir, "stat", path+"/stat", buf[:])
	if err != nil {
		return Identity{}, err
	}
	s, ok := parseStat(b)
	rest, found := afterComm(b)
	if !ok || !found {
		return Identity{}, &Error{"read", path + "/stat", fmt.Errorf("%w: %.200q", errFormat, b)}
	}
	id := Identity{PID: pid, Parent: int(s.ppid), StartTicks: s.startTicks, Comm: commOf(b)}
	exe := path
	if rest[0] == 'Z' || rest[0] == 'X' {
		fd, tid, err := attach.OpenLiving(dir, pid)
		switch {
		case err == nil:
			closeFD(fd)
			exe = fmt.Sprintf("/proc/%d", tid)
		case errors.Is(&Error{Err: err}, ErrGone):
			id.Ended = true
		default:
			return Identity{}, &Error{"open", path + "/task", err}
		}
	}
	// Exe stays empty if ddtop may not read it. It is only for comparisons, because an exec changes it.
	id.Exe, _ = os.Readlink(exe + "/exe")
	return id, nil
}
