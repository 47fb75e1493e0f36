package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

// maxInside limits how many functions of a thread's kernel stack are read, from the innermost one on.
const maxInside = 16

// insideWords has the texts that say what a thread waits for in a function of the kernel. The names are from Linux 4.19
// to 6.18. ddtop uses the innermost listed function of a thread's kernel stack. So a function that serves different
// waits must not be listed.
var insideWords = map[string]string{
	"blkdev_issue_flush":           "waits for the disk to flush",
	"folio_wait_writeback":         "waits for the disk to write",
	"wait_on_page_writeback":       "waits for the disk to write",
	"balance_dirty_pages":          "waits because too much is not yet written to the disk",
	"jbd2_log_wait_commit":         "waits for the journal of ext4",
	"__jbd2_log_wait_for_space":    "waits for the journal of ext4",
	"wait_transaction_locked":      "waits for the journal of ext4",
	"xfs_log_force_seq":            "waits for the log of XFS",
	"rpc_wait_bit_killable":        "waits for the NFS server",
	"nfs_wait_bit_killable":        "waits for the NFS server",
	"request_wait_answer":          "waits for the program of a FUSE file system",
	"wait_for_response":            "waits for the SMB server",
	"wait_for_partner":             "waits until a process opens the other end of the FIFO",
	"locks_lock_inode_wait":        "waits for a lock on the file",
	"flock_lock_inode_wait":        "waits for a lock on the file",
	"posix_lock_inode_wait":        "waits for a lock on the file",
	"do_lock_file_wait":            "waits for a lock on the file",
	"fcntl_setlk":                  "waits for a lock on the file",
	"mem_cgroup_oom_synchronize":   "waits because its cgroup has no memory left",
	"mem_cgroup_handle_over_high":  "is slowed down because its cgroup uses too much memory",
	"throttle_direct_reclaim":      "waits for free memory",
	"folio_wait_bit_common":        "waits for a page of a file or of swap",
	"__lock_page_killable":         "waits for a page of a file or of swap",
	"wait_on_page_bit_common":      "waits for a page of a file or of swap",
	"rwsem_down_read_slowpath":     "waits for a lock in the kernel",
	"rwsem_down_write_slowpath":    "waits for a lock in the kernel",
	"wait_for_completion_killable": "waits for another part of the kernel, or for a child before its exec",
	"__do_sys_vfork":               "waits until its child calls exec or ends",
}

// fileCalls are system calls on files that can wait for different things. So the call's name does not show what a
// thread waits for.
var fileCalls = map[string]bool{"open": true, "openat": true, "openat2": true, "flock": true, "fcntl": true,
	"fsync": true, "fdatasync": true, "sync": true, "syncfs": true, "sync_file_range": true, "msync": true,
	"close": true, "unlink": true, "rename": true, "stat": true, "fstat": true, "lstat": true, "newfstatat": true,
	"statx": true}

// OnFiles reports whether a system call works on files and can wait for different things. Inside finds out which of
// them.
func (t *Tasks) OnFiles(call int64) bool { return fileCalls[t.names.name(call)] }

// ErrInside means that the kernel shows the functions of a thread's kernel stack only to root.
var ErrInside = errors.New("only root sees what the kernel does for it")

// Inside describes what the kernel does for a thread that sleeps in a call on files, or that cannot be interrupted
// (state D). words is empty if the name of the system call is enough. The error is ErrInside, or an *Error.
func (t *Tasks) Inside(tid int32) (words string, err error) {
	state, err := t.State(tid)
	if err != nil {
		return "", err
	}
	call, err := t.Call(tid)
	if err != nil || state != 'D' && !fileCalls[call.Name] {
		return "", err
	}
	name := "task/" + strconv.Itoa(int(tid)) + "/stack"
	var buf [4096]byte
	b, err := readWhole(t.dir, name, fmt.Sprintf("/proc/%d/%s", t.pid, name), buf[:])
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EPERM) {
		return "", ErrInside
	}
	if err != nil {
		return "", err
	}
	return insideOf(string(b), state == 'D'), nil
}

// insideOf describes a wait by the text of /proc/PID/task/TID/stack. If insideWords has no text for it and unknown is
// true, insideOf names the innermost function outside the scheduler.
func insideOf(stack string, unknown bool) string {
	first := ""
	n := 0
	for line := range strings.Lines(stack) {
		_, name, ok := strings.Cut(strings.TrimSpace(line), "] ")
		if name, _, _ = strings.Cut(name, "+0x"); !ok || n >= maxInside {
			break
		}
		n++
		name, _, _ = strings.Cut(name, ".") // without the compiler's suffix, as in name.isra.0
		if words := insideWords[name]; words != "" {
			return words
		}
		if first == "" && !strings.Contains(name, "schedule") {
			first = name
		}
	}
	if first == "" || !unknown {
		return ""
	}
	return "waits in the kernel's function " + first
}
