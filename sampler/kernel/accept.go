package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// listenersNS is the interval between searches for listening sockets among the process's descriptors, in ns.
	listenersNS = 10e9
	// maxAcceptLinks is the largest number of descriptors that are searched. The search begins with the lowest numbers
	// (the kernel's order), and takes 3 µs for each descriptor. Listening sockets have low numbers, because a server
	// listens before it accepts connections.
	maxAcceptLinks = 4096
	// acceptRest is the pause after a reading, as a multiple of the reading's duration. So readings take at most half a
	// percent of the time.
	acceptRest = 200
	// dropsNS is how long, in ns, counters of a network namespace are reused for other processes in the same namespace.
	dropsNS = 500e6
)

// accepts reads the accept queues of a process's listening sockets: the connections that wait to be accepted. Only one
// goroutine may use it.
type accepts struct {
	diag   *sockDiag
	wanted map[uint64]*listening
	cut    bool
	// listNS is the time of the next search for listening sockets. askNS is the time of the next reading of their
	// queues.
	listNS, askNS int64
	last          sampler.Accept
}

// listening is a listening socket, TCP or unix.
type listening struct {
	sampler.Listener
	unix bool
}

// read returns the accept queues, or the last result during the pause after a reading. nowNS is CLOCK_MONOTONIC.
func (a *accepts) read(proc *living, nowNS int64) sampler.Accept {
	if nowNS < a.askNS || nowNS < a.listNS && len(a.wanted) == 0 { // nothing to read before the next search
		return a.last
	}
	began := monotonic()
	defer func() { a.askNS = nowNS + acceptRest*(monotonic()-began) }()
	a.last = sampler.Accept{Overflows: sampler.UnknownCount, Drops: sampler.UnknownCount}
	if err := a.ask(proc, nowNS); err != nil {
		a.close()
		a.last.Why = fmt.Sprintf("the listening sockets of process %d cannot be read: %v", proc.pid, err)
		return a.last
	}
	a.last.Known, a.last.Cut = true, a.cut
	if overflows, drops, ok := sharedDrops(proc); ok {
		a.last.Overflows, a.last.Drops = overflows, drops
	}
	return a.last
}

// ask reads the accept queues into a.last.Listeners. It leaves out sockets that were closed after the last search.
func (a *accepts) ask(proc *living, nowNS int64) error {
	if a.diag == nil || nowNS >= a.listNS {
		if err := a.list(proc, nowNS); err != nil {
			return err
		}
	}
	list, err := a.diag.queues(a.wanted)
	a.last.Listeners = list
	return err
}

// list searches the process's descriptors for listening sockets.
func (a *accepts) list(proc *living, nowNS int64) error {
	a.close()
	inodes, all, err := socketsOf(proc)
	if err != nil {
		return err
	}
	if a.diag, err = openSockDiag(proc); err != nil {
		return err
	}
	a.wanted, err = a.diag.listeningAmong(inodes)
	if err != nil {
		return err
	}
	a.cut = !all
	for inode := range a.wanted {
		if len(a.wanted) <= sampler.MaxListeners {
			break
		}
		delete(a.wanted, inode)
		a.cut = true
	}
	a.listNS = nowNS + listenersNS
	return nil
}

func (a *accepts) close() {
	if a.diag != nil {
		a.diag.close()
	}
	a.diag = nil
}

// socketsOf returns the inodes of a process's sockets. The result all is false if more than maxAcceptLinks descriptors
// are open.
func socketsOf(proc *living) (inodes map[uint64]struct{}, all bool, err error) {
	dir, err := proc.open("fd")
	if err != nil {
		return nil, false, &Error{"open", fmt.Sprintf("/proc/%d/fd", proc.pid), err}
	}
	defer closeFD(dir)
	fds, err := listNumbers(dir, ".", fmt.Sprintf("/proc/%d/fd", proc.pid), nil)
	if err != nil {
		return nil, false, err
	}
	inodes = make(map[uint64]struct{})
	var buf [64]byte
	for _, fd := range fds[:min(len(fds), maxAcceptLinks)] {
		n, err := readlinkAt(dir, append(strconv.AppendInt(nil, int64(fd), 10), 0), buf[:])
		if err != nil {
			if errors.Is(err, errPermission) {
				return nil, false, &Error{"readlink", fmt.Sprintf("/proc/%d/fd/%d", proc.pid, fd), err}
			}
			continue // the descriptor was closed
		}
		if inode, ok := socketInode(buf[:n]); ok {
			inodes[inode] = struct{}{}
		}
	}
	return inodes, len(fds) <= maxAcceptLinks, nil
}

// lastDrops caches the counters of a network namespace. All processes of the namespace share these counters. A reading
// is expensive, because the kernel writes a hundred other counters, too. namespace is the inode of the namespace, or
// zero if nothing was read.
var lastDrops struct {
	sync.Mutex
	namespace        uint64
	atNS             int64
	overflows, drops int64
}

// sharedDrops is listenDrops with a cache: for dropsNS, all processes of a network namespace get the same result.
func sharedDrops(proc *living) (overflows, drops int64, ok bool) {
	last, now := &lastDrops, monotonic()
	namespace := proc.namespace("ns/net")
	last.Lock()
	defer last.Unlock()
	if namespace != 0 && namespace == last.namespace && now-last.atNS < dropsNS {
		return last.overflows, last.drops, true
	}
	overflows, drops, ok = listenDrops(proc)
	if last.namespace = 0; ok {
		last.namespace, last.atNS, last.overflows, last.drops = namespace, now, overflows, drops
	}
	return overflows, drops, ok
}

// listenDrops reads ListenOverflows and ListenDrops, which the kernel counts for each network namespace.
func listenDrops(proc *living) (overflows, drops int64, ok bool) {
	fd, err := proc.open("net/netstat")
	if err != nil {
		return 0, 0, false
	}
	defer closeFD(fd)
	b, err := readAll(fd, "net/netstat")
	if err != nil {
		return 0, 0, false
	}
	return parseListenDrops(b)
}

// parseListenDrops reads net/netstat: a line of names after "TcpExt:", then a line of their values.
func parseListenDrops(b []byte) (overflows, drops int64, ok bool) {
	lines := bytes.SplitN(b, []byte("TcpExt:"), 3)
	if len(lines) < 3 {
		return 0, 0, false
	}
	names, values, found := bytes.Fields(lines[1]), bytes.Fields(lines[2]), 0
	for i := range min(len(names), len(values)) {
		n, err := strconv.ParseInt(string(values[i]), 10, 64)
		switch name := string(names[i]); {
		case err != nil:
		case name == "ListenOverflows":
			overflows, found = n, found+1
		case name == "ListenDrops":
			drops, found = n, found+1
		}
	}
	return overflows, drops, found == 2
}
