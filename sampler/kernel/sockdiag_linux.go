package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// Layouts of linux/inet_diag.h and linux/unix_diag.h.
const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY

	inetRequestSize, unixRequestSize = 56, 24
	inetAnswerSize, unixAnswerSize   = 72, 16
	// These are the offsets of the inet_diag_sockid in a request and in an answer, and of the fields in it.
	inetIDAt, inetIDAnswerAt                     = 8, 4
	idLocalPort, idRemotePort                    = 0, 2
	idLocal, idRemote, idCookie                  = 4, 20, 40
	inetStateAt, inetInodeAt                     = 1, 68
	unixInodeAt, unixShowAt, unixCookieAt        = 8, 12, 16
	unixStateAnswerAt, unixInodeAnswerAt         = 2, 4
	unixShowName, unixAttributeName              = 1, 0
	stateListens                                 = 10 // TCP_LISTEN, also of Unix sockets
	statesAll                             uint32 = 0xffffffff &^ (1<<6 | 1<<12)
)

// diagPatience is how long ddtop waits for one part of the kernel's answer, in s.
const diagPatience = 2

// maxDiagParts is the largest number of parts in one list of sockets. A part has about 64 KB, so a list has up to
// 400,000 sockets.
const maxDiagParts = 1024

// sockDiag asks the kernel for sockets of one network namespace (sock_diag(7)).
type sockDiag struct {
	fd  int
	seq uint32
}

// diagBuffers hold answers while they are read. Every followed process has a sockDiag, but few are in use at a time,
// so they share buffers.
var diagBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// errNoSuchSocket means that no socket matches the request.
var errNoSuchSocket = errors.New("no such socket")

// openSockDiag opens a netlink socket that asks about the network namespace of a process. If this is not ddtop's
// namespace, ddtop needs CAP_SYS_ADMIN.
func openSockDiag(proc *living) (*sockDiag, error) {
	ns, err := proc.open("ns/net")
	if err != nil {
		return nil, &Error{"open", fmt.Sprintf("/proc/%d/ns/net", proc.pid), err}
	}
	defer closeFD(ns)
	var theirs, ours unix.Stat_t
	if err := errors.Join(unix.Fstat(ns, &theirs), unix.Stat("/proc/thread-self/ns/net", &ours)); err != nil {
		return nil, &Error{"stat", fmt.Sprintf("/proc/%d/ns/net", proc.pid), err}
	}
	fd := noFD
	if theirs.Ino == ours.Ino && theirs.Dev == ours.Dev {
		fd, err = diagSocket()
	} else {
		done := make(chan struct{})
		attach.OnOwnThread(func() { // the thread enters the other namespace, and ends
			defer close(done)
			if err = unix.Setns(ns, unix.CLONE_NEWNET); err == nil {
				fd, err = diagSocket()
			}
		})
		<-done
	}
	if err != nil {
		return nil, &Error{"sock_diag", fmt.Sprintf("process %d", proc.pid), err}
	}
	return &sockDiag{fd: fd}, nil
}

func diagSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return noFD, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: diagPatience}); err != nil {
		closeFD(fd)
		return noFD, err
	}
	return fd, nil
}

func (d *sockDiag) close() { closeFD(d.fd) }

// listener returns the inode of the TCP socket that listens at an address. The kernel finds this socket in the same way
// as for an incoming packet. So the call is fast even if there are many sockets. inode is zero if no socket listens
// there.
func (d *sockDiag) listener(at netip.AddrPort) (inode uint64, err error) {
	request := inetRequest(familyOf(at.Addr()), unix.IPPROTO_TCP)
	id := request[inetIDAt:]
	binary.BigEndian.PutUint16(id[idLocalPort:], at.Port())
	copy(id[idLocal:], at.Addr().AsSlice())
	err = d.ask(request, false, func(answer []byte) {
		if len(answer) >= inetAnswerSize && answer[inetStateAt] == stateListens {
			inode = uint64(binary.NativeEndian.Uint32(answer[inetInodeAt:]))
		}
	})
	if errors.Is(err, errNoSuchSocket) {
		err = nil
	}
	return inode, err
}

func familyOf(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func inetRequest(family, protocol byte) []byte {
	b := make([]byte, inetRequestSize)
	b[0], b[1] = family, protocol
	binary.NativeEndian.PutUint32(b[4:], statesAll)
	binary.NativeEndian.PutUint64(b[inetIDAt+idCookie:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	return b
}

// named finds the wanted sockets by inode, and adds them to found. It asks for each unix socket separately. For TCP and
// UDP, it asks for lists of all sockets.
func (d *sockDiag) named(wanted map[uint64]struct{}, found map[uint64]sampler.Peer) error {
	for inode := range wanted {
		request := unixRequest(statesAll|statesListening, unixShowName)
		binary.NativeEndian.PutUint32(request[unixInodeAt:], uint32(inode))
		err := d.ask(request, false, func(answer []byte) {
			if peer, ok := unixAnswer(answer, inode); ok {
				found[inode] = peer
			}
		})
		if err != nil && !errors.Is(err, errNoSuchSocket) {
			return err
		}
	}
	for _, list := range []struct {
		family, protocol byte
		kind             sampler.PeerKind
	}{
		{unix.AF_INET, unix.IPPROTO_TCP, sampler.PeerTCP}, {unix.AF_INET6, unix.IPPROTO_TCP, sampler.PeerTCP},
		{unix.AF_INET, unix.IPPROTO_UDP, sampler.PeerUDP}, {unix.AF_INET6, unix.IPPROTO_UDP, sampler.PeerUDP},
	} {
		if len(found) == len(wanted) {
			return nil
		}
		request := inetRequest(list.family, list.protocol)
		err := d.ask(request, true, func(answer []byte) {
			if len(answer) < inetAnswerSize {
				return
			}
			inode := uint64(binary.NativeEndian.Uint32(answer[inetInodeAt:]))
			if _, ok := wanted[inode]; ok && inode != 0 {
				found[inode] = inetAnswer(answer, list.kind)
			}
		})
		if err != nil && !errors.Is(err, errNoSuchSocket) {
			return err
		}
	}
	return nil
}

func inetAnswer(answer []byte, kind sampler.PeerKind) sampler.Peer {
	if kind == sampler.PeerTCP && answer[inetStateAt] == stateListens {
		kind = sampler.PeerListener
	}
	id := answer[inetIDAnswerAt:]
	at := func(address, port int) netip.AddrPort {
		var a netip.Addr
		if answer[0] == unix.AF_INET {
			a = netip.AddrFrom4([4]byte(id[address:]))
		} else {
			a = netip.AddrFrom16([16]byte(id[address:])).Unmap()
		}
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(id[port:]))
	}
	return internetPeer(kind, at(idLocal, idLocalPort), at(idRemote, idRemotePort))
}

// unixAnswer reads a unix_diag_msg with its attributes. The path in the answer is the socket's own path. It does not
// belong to the other end.
func unixAnswer(answer []byte, inode uint64) (sampler.Peer, bool) {
	if len(answer) < unixAnswerSize || uint64(binary.NativeEndian.Uint32(answer[unixInodeAnswerAt:])) != inode {
		return sampler.Peer{}, false
	}
	p := sampler.Peer{Kind: sampler.PeerUnix}
	unixAttributes(answer, func(kind uint16, value []byte) {
		if kind == unixAttributeName {
			p.Local = unixPath(value)
		}
	})
	if answer[unixStateAnswerAt] == stateListens {
		p.Kind = sampler.PeerListener
		p.Service = unixService(p.Local)
	}
	return p, true
}

// unixAttributes calls take for each attribute of a unix_diag_msg.
func unixAttributes(answer []byte, take func(kind uint16, value []byte)) {
	for rest := answer[unixAnswerSize:]; len(rest) >= 4; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < 4 || size > len(rest) {
			break
		}
		take(binary.NativeEndian.Uint16(rest[2:]), rest[4:size])
		rest = rest[min((size+3)&^3, len(rest)):]
	}
}

// ask sends a request, and calls take for each answer. list is true if the request is for all sockets that match.
func (d *sockDiag) ask(request []byte, list bool, take func(answer []byte)) error {
	d.seq++
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(request))
	flags := uint16(unix.NLM_F_REQUEST)
	if list {
		flags |= unix.NLM_F_DUMP
	}
	binary.NativeEndian.PutUint32(m, uint32(cap(m)))
	binary.NativeEndian.PutUint16(m[4:], diagByFamily)
	binary.NativeEndian.PutUint16(m[6:], flags)
	binary.NativeEndian.PutUint32(m[8:], d.seq)
	if err := unix.Sendto(d.fd, append(m, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := diagBuffers.Get().(*[64 << 10]byte)
	defer diagBuffers.Put(buf)
	for range maxDiagParts {
		n, _, err := unix.Recvfrom(d.fd, buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		over, err := d.part(buf[:n], list, take)
		if over || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: more than %d parts", errFormat, maxDiagParts)
}

// part reads one datagram of an answer. The result over is true for the last datagram.
func (d *sockDiag) part(b []byte, list bool, take func(answer []byte)) (over bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return true, fmt.Errorf("%w: a message of %d bytes", errFormat, size)
		}
		kind, body := binary.NativeEndian.Uint16(b[4:]), b[unix.NLMSG_HDRLEN:size]
		own := binary.NativeEndian.Uint32(b[8:]) == d.seq
		switch {
		case !own: // an answer to an earlier request
		case kind == unix.NLMSG_DONE:
			return true, nil
		case kind == unix.NLMSG_ERROR:
			if len(body) < 4 {
				return true, fmt.Errorf("%w: an error of %d bytes", errFormat, len(body))
			}
			switch e := unix.Errno(-int32(binary.NativeEndian.Uint32(body))); e {
			case 0:
				return true, nil
			case unix.ENOENT:
				return true, errNoSuchSocket
			default:
				return true, e
			}
		case kind == diagByFamily:
			take(body)
			if !list {
				return true, nil
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, nil
}
