package gvl

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// callClass is what a system call means for a thread that has released the GVL: for example, that it reads, sleeps, or
// waits for a child process.
type callClass uint8

const (
	callOther callClass = iota
	callRead
	callWrite
	callAccept
	callConnect
	callPoll
	callSelect
	callChild
	callSleep
	callFutex
	callFile
	callSemaphore
	callSocket
)

// callsOf lists the system calls of Linux in which threads sleep, by their meaning. It leaves out calls that handle
// memory, and calls that read and set data in the kernel. If a thread sleeps in a call that is left out, screens show
// the call's name.
var callsOf = map[callClass][]string{
	callRead: {"read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg", "getrandom", "msgrcv", "mq_timedreceive",
		"process_vm_readv", "syslog"},
	callWrite: {"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice", "tee", "vmsplice",
		"copy_file_range", "msgsnd", "mq_timedsend", "process_vm_writev"},
	callAccept:  {"accept", "accept4"},
	callConnect: {"connect"},
	callPoll: {"poll", "ppoll", "epoll_wait", "epoll_wait_old", "epoll_pwait", "epoll_pwait2", "io_uring_enter", "io_getevents",
		"io_pgetevents"},
	callSelect: {"select", "pselect6"},
	// A thread in vfork, or in clone with CLONE_VFORK (posix_spawn, Ruby's spawn), waits until the child calls exec.
	callChild:     {"wait4", "waitid", "vfork", "clone", "clone3"},
	callSleep:     {"nanosleep", "clock_nanosleep", "pause", "rt_sigtimedwait", "rt_sigsuspend"},
	callFutex:     {"futex", "futex_waitv", "futex_wait", sampler.SyscallLostLock, sampler.SyscallLostHelper, sampler.SyscallHelperLock},
	callSemaphore: {"semop", "semtimedop"},
	callSocket:    {"shutdown", "setsockopt", "getsockopt", "bind", "listen", "getpeername", "getsockname", "socket", "socketpair"},
	callFile: {"open", "openat", "openat2", "open_by_handle_at", "creat", "close", "close_range", "dup2", "dup3", "fsync", "fdatasync",
		"sync_file_range", "sync", "syncfs", "flock", "fcntl", "fallocate", "ftruncate", "truncate", "lseek", "readahead", "fadvise64",
		"stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs", "ustat", "cachestat", "getdents", "getdents64", "getcwd",
		"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "readlink", "readlinkat",
		"mkdir", "mkdirat", "rmdir", "mknod", "mknodat", "chdir", "fchdir", "chroot", "chmod", "fchmod", "fchmodat", "fchmodat2",
		"chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat", "access", "faccessat", "faccessat2",
		"getxattr", "lgetxattr", "fgetxattr", "getxattrat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "listxattr", "llistxattr",
		"flistxattr", "listxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_getattr", "file_setattr",
		"msync", "ioctl", "io_submit", "io_cancel", "io_destroy", "epoll_ctl", "inotify_add_watch", "fanotify_mark", "name_to_handle_at",
		"mq_open", "mq_unlink", "mount", "umount2", "move_mount", "open_tree", "open_tree_attr", "mount_setattr", "fsopen", "fsmount",
		"fsconfig", "fspick", "pivot_root", "statmount", "listmount", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct", "uselib",
		"execve", "execveat"},
}

// callClasses is the inverse of callsOf: the class of each system call, by its name.
var callClasses = func() map[string]callClass {
	m := make(map[string]callClass)
	for class, names := range callsOf {
		for _, name := range names {
			m[name] = class
		}
	}
	return m
}()

// kindCLock is the Detail.Kind of a mutex in C code.
const kindCLock = "C mutex"

// blockWords has the Detail.Kind of each sampler.BlockKind: the kind of Ruby object that the thread waits for. A word
// is empty if the thread waits for no such object.
var blockWords = [...]string{
	sampler.BlockNone: "", sampler.BlockMutex: "Mutex", sampler.BlockMonitor: "Monitor", sampler.BlockQueue: "Queue",
	sampler.BlockSizedQueue: "SizedQueue", sampler.BlockConditionVariable: "ConditionVariable",
	sampler.BlockJoin: "Thread", sampler.BlockSleep: "", sampler.BlockSleepForever: "", sampler.BlockChild: "",
	sampler.BlockRactor: "Ractor", sampler.BlockIO: "", sampler.BlockSelect: "",
}

// released returns the state of a thread that neither holds nor wants the GVL. It examines four kinds of evidence, in
// this order: objects in memory, the kernel's answer, the innermost frames, and Ruby's own status. The first kind that
// shows a state decides.
func (c *Classifier) released(s *sampler.Sample, t *sampler.Thread, e *episode) (State, Detail) {
	d := Detail{FD: -1}
	switch {
	case t.Status == sampler.Killed:
		switch {
		case t.Bits&sampler.BitMain == 0:
			d.Reason = ReasonDead
		case len(s.Threads) > 1:
			d.Reason = ReasonWaitsForEnd
		default:
			d.Reason = ReasonEnding
		}
		return Unknown, d
	case t.Bits&sampler.BitStarting != 0:
		d.Reason = reasonStarting
		return Unknown, d
	case t.Bits&sampler.BitNoStatus != 0 && !e.known:
		d.Reason = reasonNoStatus
		return Unknown, d
	}
	b := &t.Blocked
	d.Object, d.DeadlineNS = b.Object, b.DeadlineNS
	if int(b.Kind) < len(blockWords) {
		d.Kind = blockWords[b.Kind]
	}
	switch b.Kind {
	case sampler.BlockMutex, sampler.BlockMonitor:
		d.Holder = b.Holder
		return Lock, d
	case sampler.BlockQueue, sampler.BlockSizedQueue, sampler.BlockConditionVariable, sampler.BlockRactor:
		return Parked, d
	case sampler.BlockJoin:
		d.Joined = b.Holder
		return Parked, d
	case sampler.BlockSleep, sampler.BlockSleepForever:
		return Sleeping, d
	case sampler.BlockChild:
		d.Op, d.Child = OpChild, b.Child
		if d.Child == 0 {
			d.Child = t.Kernel.Child // from 3.3 on, only the system call's arguments show the child's PID
		}
		return IO, d
	}
	k := &t.Kernel
	// Rechecked is set only in answers that the kernel gave while the thread held the GVL. Now the thread has released
	// the GVL, so such an answer is about an earlier time.
	answered := k.StateAtNS > e.fromNS && k.Syscall != "" && !k.Rechecked
	old := answered && s.TimeNS-k.StateAtNS > releasedAnswerNS
	if b.Kind == sampler.BlockIO || b.Kind == sampler.BlockSelect {
		return c.waitsForFD(s, t, e, answered, d)
	}
	switch {
	case answered && !old:
		return c.byKernel(t, e, d)
	case t.Bits&sampler.BitBlockingRegion == 0:
		return c.withoutRegion(t, e, d)
	}
	if e.hint.state != Unknown {
		return c.byHint(e, d)
	}
	switch {
	case old:
		d.Reason = reasonOldAnswer
	case t.Bits&sampler.BitUnmounted != 0 && t.TID == 0:
		d.Reason = reasonUnmounted
	case k.StateAtNS > e.fromNS && k.Syscall == "":
		d.Reason = reasonNoKernelRow
	default:
		d.Reason = ReasonNotAsked
	}
	return Unknown, d
}

// waitsForFD returns the state of a thread that waits for a descriptor, if Ruby's memory names this descriptor. The
// kernel's answer adds the direction and the peer. The kernel may also report that the thread is on a CPU, for example
// in a large read from /dev/urandom.
func (c *Classifier) waitsForFD(s *sampler.Sample, t *sampler.Thread, e *episode, answered bool, d Detail) (State, Detail) {
	d.Op, d.FD = OpIO, t.Blocked.FD
	if t.Blocked.Kind == sampler.BlockSelect {
		d.Op = OpSelect
	}
	if answered {
		k := &t.Kernel
		if k.Syscall == sampler.SyscallRunning && s.TimeNS-k.StateAtNS <= c.heldAnswerNS {
			d.Op = ""
			return Native, d
		}
		if k.FD == d.FD || d.FD < 0 {
			d.FD, d.FDs, d.Peer = k.FD, k.FDs, k.Peer
		}
		if op := ioOps[callClasses[k.Syscall]]; op != "" {
			d.Op, d.Syscall = op, k.Syscall
		}
	} else if k := &t.Kernel; t.TID == 0 && k.StateAtNS > e.fromNS && k.FD == d.FD {
		d.FDs, d.Peer = k.FDs, k.Peer // without a native thread (M:N) only the descriptor can be looked up
	}
	c.refineOp(e, &d)
	return IO, d
}

// ioOps has the Detail.Op for each class of system calls that do I/O.
var ioOps = [...]string{
	callRead: OpRead, callWrite: OpWrite, callAccept: OpAccept, callConnect: OpConnect, callPoll: OpPoll, callSelect: OpSelect,
	callFile: OpFile, callSemaphore: OpSemaphore, callSocket: OpIO,
}

// refineOp replaces the operation "poll" in d by the operation that the thread will do after it. Since 3.0, Ruby polls
// a descriptor before it reads, writes or accepts.
func (c *Classifier) refineOp(e *episode, d *Detail) {
	if (d.Op == OpPoll || d.Op == OpIO) && d.FDs <= 1 && e.hint.state == IO && e.hint.op != "" {
		d.Op = e.hint.op
	}
	if d.Peer == 0 || c.dict == nil {
		return
	}
	p := c.dict.Peer(d.Peer)
	switch {
	case p.Kind == sampler.PeerListener && d.FDs <= 1 && d.Op != OpSelect:
		d.Op = OpAccept
	case p.Kind == sampler.PeerUDP && strings.HasSuffix(p.Remote, ":53"):
		d.Op = OpResolve
	}
}

// byKernel returns the state that follows from the kernel's answer. It is used if memory does not name what the thread
// waits for.
func (c *Classifier) byKernel(t *sampler.Thread, e *episode, d Detail) (State, Detail) {
	k := &t.Kernel
	region := t.Bits&sampler.BitBlockingRegion != 0
	d.Syscall = k.Syscall
	switch k.Syscall {
	case sampler.SyscallRunning:
		d.Syscall = ""
		if !region && e.hint.state == Unknown && t.Status != sampler.Runnable {
			// The kernel reports that the thread runs, so it is about to sleep or was just woken. So the kernel cannot
			// say what the thread waits for, and Ruby's own status decides.
			return c.withoutRegion(t, e, d)
		}
		if !region && e.hint.state != Unknown {
			return c.byHint(e, d)
		}
		return Native, d
	case sampler.SyscallNone:
		d.Reason = reasonNoSyscall
		return Unknown, d
	case sampler.SyscallEnded:
		d.Reason = reasonEnded
		return Unknown, d
	}
	class := callClasses[k.Syscall]
	switch class {
	case callSleep:
		return Sleeping, d
	case callChild:
		d.Op, d.Child = OpChild, k.Child
		return IO, d
	case callFutex:
		resolves := e.hint.state == IO && (e.hint.op == OpConnect || e.hint.op == OpResolve)
		if k.Syscall == sampler.SyscallLostLock || k.Syscall == sampler.SyscallLostHelper && resolves {
			d.Kind = kindCLock
			return Lock, d
		}
		if resolves && (c.proc.Era != sampler.EraSched || k.Syscall == sampler.SyscallHelperLock) {
			// Up to 3.2, the caller itself asks the name server, so it waits for a lock of the C library. In later
			// releases a helper thread asks the name server, and waits for that lock instead.
			d.Kind = kindCLock
			return Lock, d
		}
		if e.hint.state == IO && e.hint.op == OpConnect {
			// Since 3.4, a helper thread resolves the name, and the caller waits for this thread.
			d.Op = OpResolve
			return IO, d
		}
		if e.hint.state != Unknown {
			return c.byHint(e, d)
		}
		if !region {
			return c.withoutRegion(t, e, d)
		}
		d.Reason = reasonFutex
		return Unknown, d
	case callPoll, callSelect:
		if class == callPoll && !region && c.pollsEventFD(k) {
			return c.withoutRegion(t, e, d)
		}
		if k.FDs == 0 && k.FD < 0 && sleepsWithout[k.Syscall] {
			return Sleeping, d
		}
	}
	if op := ioOps[class]; op != "" {
		d.Op, d.FD, d.FDs, d.Peer = op, k.FD, k.FDs, k.Peer
		c.refineOp(e, &d)
		return IO, d
	}
	if e.hint.state != Unknown {
		return c.byHint(e, d)
	}
	d.Reason = reasonOtherCall
	return Unknown, d
}

// sleepsWithout has the system calls that wait for descriptors. If they are called without a descriptor, they only wait
// for time and signals, so the thread sleeps.
var sleepsWithout = map[string]bool{"poll": true, "ppoll": true, "select": true, "pselect6": true}

// pollsEventFD reports whether the thread polls only Ruby's own eventfds, through which signals wake it. Up to 3.2, a
// sleeping thread waits in ppoll on one or two eventfds (docs/internals/threads.md#what-a-thread-waits-for).
func (c *Classifier) pollsEventFD(k *sampler.Kernel) bool {
	if k.FDs > 2 {
		return false
	}
	if k.Peer != 0 && c.dict != nil {
		return c.dict.Peer(k.Peer).Kind == sampler.PeerEventFD
	}
	return c.proc.Era != sampler.EraSched
}

// withoutRegion returns the state of a thread that has released the GVL outside any blocking region (Ruby's code around
// a blocking call). It is used if no object in memory explains why the thread waits. Ruby's status of the thread then
// decides. STOPPED_FOREVER means a wait for another thread, and STOPPED means a sleep.
func (c *Classifier) withoutRegion(t *sampler.Thread, e *episode, d Detail) (State, Detail) {
	if e.hint.state != Unknown {
		return c.byHint(e, d)
	}
	switch t.Status {
	case sampler.StoppedForever:
		return Parked, d
	case sampler.Stopped:
		return Sleeping, d
	}
	d.Reason = ReasonNotAsked
	return Unknown, d
}

// byHint returns the state that follows from the thread's innermost frames.
func (c *Classifier) byHint(e *episode, d Detail) (State, Detail) {
	d.Op, d.Kind = e.hint.op, e.hint.kind
	return e.hint.state, d
}

// Doing returns the state of a thread that has released the GVL. It needs no sample, only d, one record of what the
// thread did in the kernel.
func (c *Classifier) Doing(d *sampler.Doing, atNS int64) (State, Detail) {
	t := sampler.Thread{TID: 1, Status: d.Status, Blocked: sampler.Blocked{FD: -1}}
	t.Kernel = sampler.Kernel{StateAtNS: atNS, Syscall: d.Syscall, FD: d.FD, FDs: d.FDs}
	if d.Kind == sampler.DoingRuns {
		t.Kernel.Syscall = sampler.SyscallRunning
	}
	if d.Region {
		t.Bits |= sampler.BitBlockingRegion
	}
	if d.Mutex != 0 {
		t.Blocked.Kind, t.Blocked.Object = sampler.BlockMutex, d.Mutex
	}
	s := sampler.Sample{TimeNS: atNS}
	return c.released(&s, &t, &episode{fromNS: atNS - 1})
}
