package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxCachedFDs is the largest number of descriptors whose peers ddtop remembers. If there are more, ddtop forgets
	// all of them.
	maxCachedFDs = 8192
	// maxExactPeers limits how many peers ddtop distinguishes by the ports of both ends. Beyond the limit, it leaves
	// out the port that the kernel chose for the client. So a server with many short connections does not fill the
	// Dictionary.
	maxExactPeers = 4096
	// maxAnyPeers limits the number of all peers. Beyond it, ddtop stores only the kind and the service of a new peer.
	maxAnyPeers = 16384
	// maxLink is the greatest length of the text of a link in /proc/PID/fd, in bytes (PATH_MAX).
	maxLink = 4096
)

// peer is the file, socket or pipe to which a descriptor leads, as the last search found it.
type peer struct {
	// link is the text of /proc/PID/fd/N. While this text stays the same, the descriptor leads to the same object.
	link string
	id   sampler.PeerID
	kind sampler.PeerKind
	// unsettled is true for a socket that is not connected yet, or for which the kernel did not report both ends. Then
	// the next search asks the kernel again.
	unsettled bool
}

// peers finds the files, sockets and pipes to which a process's descriptors lead.
type peers struct {
	pid   int
	proc  *living
	fdDir int // /proc/PID/fd, or noFD if it may not be opened
	dict  *sampler.Dictionary
	sock  socketAsker
	link  [maxLink]byte
	name  [16]byte

	// mu protects what ResolveSockets shares with the sampling goroutine. It is never held during a system call.
	mu    sync.Mutex
	byFD  map[int32]peer
	named map[sampler.Peer]sampler.PeerID // the peers in the Dictionary
	// generation is the generation of the Dictionary to which the IDs in byFD belong.
	generation sampler.Generation
	table      socketTable
	wanted     map[uint64]struct{} // inodes of sockets that only the tables of /proc/PID/net can name
	listeners  listeners
}

func openPeers(pid, dir int, dict *sampler.Dictionary) (*peers, error) {
	p := &peers{
		pid: pid, proc: newLiving(pid, dir), dict: dict,
		byFD:   make(map[int32]peer),
		named:  make(map[sampler.Peer]sampler.PeerID),
		wanted: make(map[uint64]struct{}),
	}
	var err error
	if p.fdDir, err = p.proc.open("fd"); Exhausted(err) {
		p.proc.close()
		return nil, &Error{"open", fmt.Sprintf("/proc/%d/fd", pid), err}
	} else if err != nil {
		// Without the permission to use ptrace, ddtop can read the CPU times of threads, but not their peers.
		p.fdDir = noFD
	}
	p.sock, err = openSocketAsker(pid)
	if err != nil {
		closeFD(p.fdDir)
		p.proc.close()
		return nil, err
	}
	if tid := p.proc.task(); tid != pid {
		p.sock.askThrough(tid)
	}
	return p, nil
}

func (p *peers) close() {
	p.proc.close()
	closeFD(p.fdDir)
	p.fdDir = noFD
	p.sock.close()
}

// lookup returns the peer of a descriptor. It is zero if the descriptor is not open or may not be read. For a known
// descriptor it costs one readlink (2.7 µs) and allocates nothing.
func (p *peers) lookup(fd int32) (sampler.PeerID, sampler.PeerKind) {
	link, ok := p.readLink(fd)
	if !ok {
		p.mu.Lock()
		delete(p.byFD, fd)
		p.mu.Unlock()
		return 0, sampler.PeerUnknown
	}
	p.mu.Lock()
	p.renew()
	known, ok := p.byFD[fd]
	p.mu.Unlock()
	if ok && known.link == string(link) && !known.unsettled {
		return known.id, known.kind
	}
	found, settled := p.describe(fd, link)
	found = p.withListener(found)
	return p.remember(fd, string(link), found, !settled), found.Kind
}

// isTCP reports whether a descriptor, whose peer is already known, is a TCP connection.
func (p *peers) isTCP(fd int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byFD[fd].kind == sampler.PeerTCP
}

// remember interns a peer in the Dictionary, and stores its ID as the peer of the descriptor.
func (p *peers) remember(fd int32, link string, found sampler.Peer, unsettled bool) sampler.PeerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renew()
	id := p.intern(found)
	if len(p.byFD) >= maxCachedFDs {
		clear(p.byFD)
	}
	p.byFD[fd] = peer{link: link, id: id, kind: found.Kind, unsettled: unsettled}
	return id
}

// intern returns the ID of a peer. If there are too many peers, it first leaves out details such as the client's port.
func (p *peers) intern(found sampler.Peer) sampler.PeerID {
	if _, ok := p.named[found]; !ok {
		if len(p.named) >= maxExactPeers {
			found = coarse(found)
		}
		if _, ok := p.named[found]; !ok && len(p.named) >= maxAnyPeers {
			found = sampler.Peer{Kind: found.Kind, Service: found.Service}
		}
	}
	id := p.dict.InternPeer(found)
	p.named[found] = id
	return id
}

// renew makes room for new peers after the Dictionary has begun another generation. It drops the peers of all
// descriptors, and the peers that the Dictionary has evicted. The caller holds mu.
func (p *peers) renew() {
	g := p.dict.Generation()
	if g == p.generation {
		return
	}
	p.generation = g
	clear(p.byFD)
	for k, id := range p.named {
		if !p.dict.HoldsPeer(id) {
			delete(p.named, k)
		}
	}
}

// readLink reads /proc/PID/fd/N into p.link.
func (p *peers) readLink(fd int32) ([]byte, bool) {
	if p.fdDir < 0 || fd < 0 {
		return nil, false
	}
	name := append(strconv.AppendInt(p.name[:0], int64(fd), 10), 0)
	n, err := readlinkAt(p.fdDir, name, p.link[:])
	if err != nil && errors.Is(&Error{Err: err}, ErrGone) && p.follow() {
		n, err = readlinkAt(p.fdDir, name, p.link[:])
	}
	if err != nil {
		return nil, false
	}
	return p.link[:n], true
}

// follow switches to the descriptors of another task if the present task has ended. It reports whether it switched.
func (p *peers) follow() bool {
	if !p.proc.moved() {
		return false
	}
	fd, err := p.proc.open("fd")
	if err != nil {
		return false
	}
	closeFD(p.fdDir)
	p.fdDir = fd
	p.sock.askThrough(p.proc.task())
	return true
}

// describe finds the peer of a descriptor. settled is false if the result may still change, so ddtop must ask again.
func (p *peers) describe(fd int32, link []byte) (found sampler.Peer, settled bool) {
	text := strings.ToValidUTF8(string(link), "\uFFFD")
	if inode, ok := socketInode(link); ok {
		found, settled, err := p.sock.ask(fd)
		if err != nil || !settled {
			if named, ok := p.fromTable(inode); ok {
				return named, true
			}
		}
		if err != nil {
			return sampler.Peer{Kind: sampler.PeerUnknown, Path: text}, false
		}
		if found.Remote == "" && found.Local == "" {
			found.Path = text
		}
		return found, settled
	}
	return sampler.Peer{Kind: p.linkKind(fd, link), Path: text}, true
}

// linkKind returns the kind of a descriptor that is no socket, from the text of its link (proc_pid_fd(5)).
func (p *peers) linkKind(fd int32, link []byte) sampler.PeerKind {
	has := func(prefix string) bool { return bytes.HasPrefix(link, []byte(prefix)) }
	switch {
	case has("pipe:["):
		return sampler.PeerPipe
	case has("anon_inode:[eventfd"):
		return sampler.PeerEventFD
	case has("anon_inode:[eventpoll"):
		return sampler.PeerEpoll
	case has("anon_inode:[timerfd"):
		return sampler.PeerTimerFD
	case !has("/"):
		return sampler.PeerOther
	}
	mode, major, err := fileType(p.fdDir, strconv.Itoa(int(fd)))
	if err != nil {
		return sampler.PeerFile
	}
	return fileKind(mode, major)
}

// fileKind distinguishes pipes and terminals from files by their type and device number.
func fileKind(mode, major uint32) sampler.PeerKind {
	const (
		// Character devices, Documentation/admin-guide/devices.txt.
		majorTTY      = 4 // tty0…, ttyS0…
		majorTTYOther = 5 // tty, console, ptmx
		majorPTSFirst = 136
		majorPTSLast  = 143
	)
	switch {
	case mode == syscall.S_IFIFO:
		return sampler.PeerPipe
	case mode == syscall.S_IFCHR &&
		(major == majorTTY || major == majorTTYOther || major >= majorPTSFirst && major <= majorPTSLast):
		return sampler.PeerTTY
	}
	return sampler.PeerFile
}

// socketInode reads N of "socket:[N]".
func socketInode(link []byte) (uint64, bool) {
	b, ok := bytes.CutPrefix(link, []byte("socket:["))
	if !ok {
		return 0, false
	}
	n, rest, ok := takeUint(b)
	return n, ok && string(rest) == "]"
}

// connecting returns the peer of a socket that is not connected yet. It uses the address in the arguments of
// connect(2).
func (p *peers) connecting(fd int32, sockaddr []byte) (sampler.PeerID, bool) {
	link, ok := p.readLink(fd)
	if !ok {
		return 0, false
	}
	found, ok := parseSockaddr(sockaddr)
	if !ok {
		return 0, false
	}
	return p.remember(fd, string(link), found, true), true
}

// pidOfPidfd returns the process of a pidfd, or zero if it is not known (fdinfo's Pid, pidfd_open(2)).
func (p *peers) pidOfPidfd(fd int32) int32 {
	if fd < 0 {
		return 0
	}
	var buf [1024]byte
	file, err := p.proc.open("fdinfo/" + strconv.Itoa(int(fd)))
	if err != nil {
		return 0
	}
	defer closeFD(file)
	read, err := pread(file, buf[:])
	if err != nil {
		return 0
	}
	text, _ := field(buf[:read], "Pid")
	n, _ := parseInt32(string(text))
	return n
}
