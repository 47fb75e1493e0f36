package kernel

import (
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxPollFDs limits how many entries of the array given to poll are read. Kernel.FDs still counts all entries.
	maxPollFDs = 1024
	// maxSelectFDs limits which descriptors of a select call are read. Descriptors with this number or a larger one are
	// left out.
	maxSelectFDs = 1 << 16
	// maxPollPeers is the largest number of descriptors of one poll or select call for which ddtop finds the peer. It
	// needs the peers to choose the descriptor that it shows.
	maxPollPeers = 16
)

// pollScratch is the buffer for the arguments of poll and select. It is reused for each call.
type pollScratch struct {
	bytes [3 * maxSelectFDs / 8]byte
}

// callKind says where the arguments of a system call show what the call waits for. For example, kindFD means that
// argument 0 is a descriptor.
type callKind uint8

const (
	kindOther callKind = iota
	kindFD             // argument 0 is a descriptor
	kindConnect
	kindPoll
	kindSelect
	kindWait4
	kindWaitID
)

// callKinds holds the system calls in which a thread can sleep and whose arguments show what it waits for. The names
// are from the system call tables of x86_64 and arm64.
var callKinds = func() map[string]callKind {
	m := map[string]callKind{
		"connect": kindConnect,
		"poll":    kindPoll, "ppoll": kindPoll,
		"select": kindSelect, "pselect6": kindSelect,
		"wait4": kindWait4, "waitid": kindWaitID,
	}
	for _, name := range []string{
		"read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2",
		"recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4", "shutdown", "close",
		"sendfile", "splice", "tee", "vmsplice", "copy_file_range",
		"epoll_wait", "epoll_pwait", "epoll_pwait2", "io_uring_enter",
		"flock", "fcntl", "ioctl", "fsync", "fdatasync", "sync_file_range", "syncfs", "ftruncate", "fallocate",
		"getdents64", "fstat", "mq_timedsend", "mq_timedreceive", "setsockopt", "getsockopt", "bind", "listen", "getpeername", "getsockname",
		"lseek", "readahead", "fadvise64", "cachestat", "fstatfs", "fchdir", "fchmod", "fchown", "fgetxattr", "fsetxattr", "flistxattr",
		"fremovexattr", "inotify_add_watch", "fanotify_mark", "epoll_ctl", "dup2", "dup3", "getdents",
	} {
		m[name] = kindFD
	}
	return m
}()

// Describe fills k's Syscall, FD, FDs, Peer and Child from the result of Call. The caller sets the times and Rechecked.
// poll, select and connect have pointers to data, which Describe reads from mem. mem may be nil.
//
// If a call has several descriptors, FD is the first that is not an eventfd. If all are eventfds, FD is one of them,
// and Peer's kind is PeerEventFD. FDs is the number of all descriptors. Eventfds are different because a thread that
// polls only eventfds just sleeps and does no I/O. Up to 3.2, the main thread's poll also has the eventfd by which Ruby
// wakes the thread for signals (docs/internals/threads.md#what-a-thread-waits-for).
//
// Describe finds the peer later than the call was read. Meanwhile the thread can have left the call. Then the
// descriptor may be closed (Peer is 0) or lead to another file.
func (t *Tasks) Describe(k *sampler.Kernel, c Call, mem attach.Memory) {
	k.Syscall, k.FD, k.FDs, k.Peer, k.Child = c.Name, -1, 0, 0, 0
	switch callKinds[c.Name] {
	case kindFD:
		t.describeFD(k, int32(c.Args[0]))
	case kindConnect:
		t.describeConnect(k, c, mem)
	case kindPoll:
		t.describePoll(k, c, mem)
	case kindSelect:
		t.describeSelect(k, c, mem)
	case kindWait4:
		// In wait4(2), 0 and numbers below -1 mean any child of a process group.
		k.Child = max(int32(c.Args[0]), -1)
		if k.Child == 0 {
			k.Child = -1
		}
	case kindWaitID:
		t.describeWaitID(k, c)
	}
}

// DescribeFD fills k from a descriptor that the target's own memory names. It is for a Ruby thread without a native
// thread (M:N threads, 3.3 and later). While such a thread waits for a descriptor, no system call of its own shows
// this. So Syscall is "".
func (t *Tasks) DescribeFD(k *sampler.Kernel, fd int32) {
	k.Syscall, k.FD, k.FDs, k.Peer, k.Child = "", -1, 0, 0, 0
	t.describeFD(k, fd)
}

// Listens reports whether the other end of k's TCP connection sends data without a request. A thread that reads from
// such a connection does not wait for an answer, but for new events. Listens returns false if this is not known.
func (t *Tasks) Listens(k *sampler.Kernel) bool {
	return k.FD >= 0 && k.FDs <= 1 && t.peers.isTCP(k.FD) && t.peers.sock.listens(k.FD)
}

func (t *Tasks) describeFD(k *sampler.Kernel, fd int32) {
	if fd < 0 {
		return
	}
	k.FD, k.FDs = fd, 1
	k.Peer, _ = t.peers.lookup(fd)
}

// describeConnect describes the address in connect's arguments. getpeername cannot name this address before the
// connection is made.
func (t *Tasks) describeConnect(k *sampler.Kernel, c Call, mem attach.Memory) {
	t.describeFD(k, int32(c.Args[0]))
	size := uint32(c.Args[2])
	if mem == nil || k.FD < 0 || size == 0 || size > maxSockaddr {
		return
	}
	b := t.scratch.bytes[:size]
	if mem.Read(attach.Address(c.Args[1]), b) != nil {
		return
	}
	if id, ok := t.peers.connecting(k.FD, b); ok {
		k.Peer = id
	}
}

// maxSockaddr is sizeof(struct sockaddr_storage), the largest address that the kernel accepts.
const maxSockaddr = 128

func (t *Tasks) describePoll(k *sampler.Kernel, c Call, mem attach.Memory) {
	const pollfdSize = 8 // the size of struct pollfd (poll(2))
	wanted := uint32(c.Args[1])
	n := int(min(wanted, maxPollFDs))
	k.FDs = int32(min(wanted, 1<<31-1))
	if mem == nil || n == 0 {
		return
	}
	b := t.scratch.bytes[:n*pollfdSize]
	if mem.Read(attach.Address(c.Args[0]), b) != nil {
		return
	}
	ch := chooser{t: t, k: k}
	for ; len(b) > 0; b = b[pollfdSize:] {
		// The kernel ignores negative descriptors (poll(2)).
		if fd := int32(binary.LittleEndian.Uint32(b)); fd >= 0 {
			ch.add(fd)
		}
	}
	if n == int(wanted) {
		k.FDs = ch.count
	}
}

func (t *Tasks) describeSelect(k *sampler.Kernel, c Call, mem attach.Memory) {
	nfds := int32(c.Args[0])
	if mem == nil || nfds <= 0 {
		return
	}
	// The kernel reads each set of descriptors in whole longs (8 bytes), so the size is rounded up.
	size := (int(min(nfds, maxSelectFDs)) + 63) / 64 * 8
	all := t.scratch.bytes[:3*size]
	for i, addr := range c.Args[1:4] {
		set := all[i*size : (i+1)*size]
		if addr == 0 || mem.Read(attach.Address(addr), set) != nil {
			clear(set)
		}
	}
	ch := chooser{t: t, k: k}
	for i := 0; i < size; i++ {
		bits := all[i] | all[size+i] | all[2*size+i]
		for bit := 0; bits != 0; bit, bits = bit+1, bits>>1 {
			if fd := int32(i*8 + bit); bits&1 != 0 && fd < nfds {
				ch.add(fd)
			}
		}
	}
	k.FDs = ch.count
}

// chooser chooses which of several descriptors to show: the first one that is not an eventfd.
type chooser struct {
	t      *Tasks
	k      *sampler.Kernel
	count  int32
	asked  int
	settle bool
}

func (c *chooser) add(fd int32) {
	c.count++
	if c.settle || c.asked >= maxPollPeers {
		return
	}
	c.asked++
	id, kind := c.t.peers.lookup(fd)
	if c.k.FD < 0 || kind != sampler.PeerEventFD {
		c.k.FD, c.k.Peer = fd, id
	}
	c.settle = kind != sampler.PeerEventFD
}

func (t *Tasks) describeWaitID(k *sampler.Kernel, c Call) {
	// The kinds of id, waitid(2).
	const (
		pAll   = 0
		pPID   = 1
		pPGID  = 2
		pPIDFD = 3
	)
	switch uint32(c.Args[0]) {
	case pPID:
		k.Child = int32(c.Args[1])
	case pAll, pPGID:
		k.Child = -1
	case pPIDFD:
		t.describeFD(k, int32(c.Args[1]))
		k.Child = t.peers.pidOfPidfd(k.FD)
	}
}
