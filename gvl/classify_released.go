package gvl

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// callClass is what a system call means for a thread that has released the GVL.
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
)

// callClasses are the system calls of Linux in which Ruby threads wait. Read-only.
var callClasses = map[string]callClass{
	"read": callRead, "pread64": callRead, "readv": callRead, "preadv": callRead, "preadv2": callRead,
	"recvfrom": callRead, "recvmsg": callRead, "recvmmsg": callRead, "getrandom": callRead,
	"write": callWrite, "pwrite64": callWrite, "writev": callWrite, "pwritev": callWrite, "pwritev2": callWrite,
	"sendto": callWrite, "sendmsg": callWrite, "sendmmsg": callWrite, "sendfile": callWrite, "splice": callWrite,
	"copy_file_range": callWrite,
	"accept":          callAccept, "accept4": callAccept,
	"connect": callConnect,
	"poll":    callPoll, "ppoll": callPoll, "epoll_wait": callPoll, "epoll_pwait": callPoll, "epoll_pwait2": callPoll,
	"io_uring_enter": callPoll, "io_getevents": callPoll,
	"select": callSelect, "pselect6": callSelect,
	"wait4": callChild, "waitid": callChild,
	"nanosleep": callSleep, "clock_nanosleep": callSleep, "pause": callSleep, "rt_sigtimedwait": callSleep,
	"rt_sigsuspend": callSleep,
	"futex":         callFutex, "futex_waitv": callFutex,
	"open": callFile, "openat": callFile, "openat2": callFile, "close": callFile, "fsync": callFile, "fdatasync": callFile,
	"sync_file_range": callFile, "sync": callFile, "syncfs": callFile, "flock": callFile, "fcntl": callFile,
	"fallocate": callFile, "ftruncate": callFile, "truncate": callFile, "stat": callFile, "lstat": callFile,
	"fstat": callFile, "newfstatat": callFile, "statx": callFile, "getdents64": callFile, "rename": callFile,
	"renameat": callFile, "renameat2": callFile, "unlink": callFile, "unlinkat": callFile, "mkdir": callFile,
	"mkdirat": callFile, "rmdir": callFile, "msync": callFile, "ioctl": callFile, "access": callFile,
	"faccessat": callFile, "faccessat2": callFile, "readlink": callFile, "readlinkat": callFile,
}

// blockWords are the words of Detail.Kind.
var blockWords = [...]string{
	sampler.BlockNone: "", sampler.BlockMutex: "Mutex", sampler.BlockMonitor: "Monitor", sampler.BlockQueue: "Queue",
	sampler.BlockSizedQueue: "SizedQueue", sampler.BlockConditionVariable: "ConditionVariable",
	sampler.BlockJoin: "Thread", sampler.BlockSleep: "", sampler.BlockSleepForever: "", sampler.BlockChild: "",
	sampler.BlockRactor: "Ractor", sampler.BlockIO: "", sampler.BlockSelect: "",
}

// released says why a thread that neither holds nor wants the GVL does not run: what memory names comes first, then
// the kernel's answer, then what the innermost frames say, and last Ruby's own status.
func (c *Classifier) released(s *sampler.Sample, t *sampler.Thread, e *episode) (State, Detail) {
	d := Detail{FD: -1}
	switch {
	case t.Status == sampler.Killed:
		d.Reason = reasonDead
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
			d.Child = t.Kernel.Child // from 3.3 on only the call's arguments say it
		}
		return IO, d
	}
	k := &t.Kernel
	// An answer that was rechecked found the thread holding the GVL, so it is of another episode.
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
		d.Reason = reasonNotAsked
	}
	return Unknown, d
}

// waitsForFD is a thread whose descriptor memory names. The kernel adds the direction and the peer, and may say that
// the thread is on a CPU (a large read from /dev/urandom, say).
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
		if op, ok := ioOp(callClasses[k.Syscall]); ok {
			d.Op, d.Syscall = op, k.Syscall
		}
	} else if k := &t.Kernel; t.TID == 0 && k.StateAtNS > e.fromNS && k.FD == d.FD {
		d.FDs, d.Peer = k.FDs, k.Peer // no native thread, no system call (M:N): the descriptor alone was looked up
	}
	c.refineOp(e, &d)
	return IO, d
}

func ioOp(class callClass) (string, bool) {
	switch class {
	case callRead:
		return OpRead, true
	case callWrite:
		return OpWrite, true
	case callAccept:
		return OpAccept, true
	case callConnect:
		return OpConnect, true
	case callPoll:
		return OpPoll, true
	case callSelect:
		return OpSelect, true
	case callFile:
		return OpFile, true
	}
	return "", false
}

// refineOp names what a poll is for: since 3.0 Ruby polls the descriptor before it reads, writes or accepts.
func (c *Classifier) refineOp(e *episode, d *Detail) {
	if (d.Op == OpPoll || d.Op == OpIO) && d.FDs <= 1 {
		if e.hint.state == IO && e.hint.op != "" {
			d.Op = e.hint.op
		}
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

// byKernel is a released thread of which memory names nothing, by the kernel's answer within the episode.
func (c *Classifier) byKernel(t *sampler.Thread, e *episode, d Detail) (State, Detail) {
	k := &t.Kernel
	region := t.Bits&sampler.BitBlockingRegion != 0
	d.Syscall = k.Syscall
	switch k.Syscall {
	case sampler.SyscallRunning:
		d.Syscall = ""
		if !region && e.hint.state == Unknown && t.Status != sampler.Runnable {
			// About to sleep or just woken: Ruby's own status says which.
			return c.withoutRegion(t, e, d)
		}
		if !region && e.hint.state != Unknown {
			return c.byHint(e, d)
		}
		return Native, d
	case sampler.SyscallNone:
		d.Reason = reasonNoSyscall
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
		if e.hint.state == IO && e.hint.op == OpConnect {
			// Since 3.4 a helper thread resolves the name and the caller waits for it.
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
	case callPoll:
		if !region && c.pollsEventFD(k) {
			return c.withoutRegion(t, e, d)
		}
	}
	if op, ok := ioOp(class); ok {
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

// pollsEventFD: up to 3.2 the thread that also waits for signals sleeps in ppoll on one or two eventfds
// (docs/internals/threads.md#what-a-thread-waits-for).
func (c *Classifier) pollsEventFD(k *sampler.Kernel) bool {
	if k.FDs > 2 {
		return false
	}
	if k.Peer != 0 && c.dict != nil {
		return c.dict.Peer(k.Peer).Kind == sampler.PeerEventFD
	}
	return c.proc.Era != sampler.EraSched
}

// withoutRegion is a released thread outside any blocking region of which memory names no object: it sleeps by
// Ruby's own account. STOPPED_FOREVER is how Ruby marks a wait for another thread.
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
	d.Reason = reasonNotAsked
	return Unknown, d
}

// byHint takes the verdict from the innermost frames.
func (c *Classifier) byHint(e *episode, d Detail) (State, Detail) {
	d.Op, d.Kind = e.hint.op, e.hint.kind
	return e.hint.state, d
}
