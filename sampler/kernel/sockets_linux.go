package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
)

// socketAsker asks the kernel for the addresses of both ends of a process's sockets.
type socketAsker struct {
	pidfd int
	// refused is why pidfd_getfd(2) cannot be used on this process. It is nil if the call can be used.
	refused error
}

// openSocketAsker opens a pidfd of the process. Kernels before 5.3 have no pidfd, and kernels before 5.6 no
// pidfd_getfd. This is not an error: ddtop then reads the ends of sockets only from the tables in /proc/PID/net.
func openSocketAsker(pid int) (socketAsker, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		return socketAsker{pidfd: fd}, nil
	case errors.Is(err, unix.ESRCH), Exhausted(err):
		return socketAsker{}, &Error{"pidfd_open", fmt.Sprintf("process %d", pid), err}
	default: // ENOSYS, or a seccomp filter's EPERM
		return socketAsker{pidfd: noFD, refused: &Error{"pidfd_open", fmt.Sprintf("process %d", pid), err}}, nil
	}
}

// pidfdThread is the flag PIDFD_THREAD of pidfd_open(2) (Linux 6.9). With it, the call accepts the number of any
// thread, not only of a process.
const pidfdThread = unix.O_EXCL

// askThrough uses another task of the process to read descriptors, because the process's first thread has ended. Before
// Linux 6.9, this is impossible: a pidfd must belong to the first thread. Then ddtop reads the ends of sockets only
// from the tables in /proc/PID/net.
func (s *socketAsker) askThrough(tid int) {
	if s.pidfd < 0 {
		return
	}
	if fd, err := unix.PidfdOpen(tid, pidfdThread); err == nil {
		closeFD(s.pidfd)
		s.pidfd = fd
	}
}

func (s *socketAsker) close() {
	closeFD(s.pidfd)
	s.pidfd = noFD
}

// ask finds the addresses of both ends of a socket. It copies the descriptor into ddtop (pidfd_getfd) and closes the
// copy at once. settled is false if the socket is not connected yet.
func (s *socketAsker) ask(fd int32) (p sampler.Peer, settled bool, err error) {
	if s.refused != nil {
		return p, false, s.refused
	}
	own, err := unix.PidfdGetfd(s.pidfd, int(fd), 0)
	if err != nil {
		err = &Error{"pidfd_getfd", fmt.Sprintf("descriptor %d", fd), err}
		if errors.Is(err, errPermission) || errors.Is(err, ErrUnsupported) {
			s.refused = err
		}
		return p, false, err
	}
	defer closeFD(own)
	return askSocket(own)
}

// streamMS is the longest time from a request to its answer, in ms. If data arrives later, ddtop does not treat it as
// an answer to the request.
const streamMS = 5000

// listens reports whether this end of a TCP connection waits for data that the other end sends without a request. There
// are two cases. Either this end has never sent data, or the last data came streamMS or more after this end last sent
// some. The kernel keeps these times in tcp_info (tcpi_last_data_sent, tcpi_last_data_recv; data_segs_in, data_segs_out
// since Linux 4.6).
func (s *socketAsker) listens(fd int32) bool {
	if s.refused != nil {
		return false
	}
	own, err := unix.PidfdGetfd(s.pidfd, int(fd), 0)
	if err != nil {
		return false
	}
	defer closeFD(own)
	i, err := unix.GetsockoptTCPInfo(own, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || i.Data_segs_in == 0 {
		return false
	}
	return i.Data_segs_out == 0 || int64(i.Last_data_sent)-int64(i.Last_data_recv) >= streamMS
}

func askSocket(fd int) (p sampler.Peer, settled bool, err error) {
	option := func(name int) int {
		v, e := unix.GetsockoptInt(fd, unix.SOL_SOCKET, name)
		err = errors.Join(err, e)
		return v
	}
	domain, kind, listens := option(unix.SO_DOMAIN), option(unix.SO_TYPE), option(unix.SO_ACCEPTCONN) != 0
	if err != nil {
		// This is not a socket. After ddtop read the link, the descriptor was closed, and its number now belongs to
		// another file.
		return p, false, &Error{"getsockopt", "socket", unix.ENOTSOCK}
	}
	local, localErr := unix.Getsockname(fd)
	remote, remoteErr := unix.Getpeername(fd)
	if localErr != nil {
		local = nil
	}
	if remoteErr != nil {
		remote = nil
	}
	switch domain {
	case unix.AF_UNIX:
		return unixPeer(local, remote, listens), listens || remoteErr == nil, nil
	case unix.AF_INET, unix.AF_INET6:
		k := sampler.PeerTCP
		switch {
		case listens:
			k = sampler.PeerListener
		case kind == unix.SOCK_DGRAM:
			k = sampler.PeerUDP
		case kind != unix.SOCK_STREAM:
			k = sampler.PeerOther
		}
		return internetPeer(k, addrPort(local), addrPort(remote)), listens || remoteErr == nil, nil
	}
	return sampler.Peer{Kind: sampler.PeerOther, Path: familyName(domain)}, true, nil
}

func unixPeer(local, remote unix.Sockaddr, listens bool) sampler.Peer {
	name := func(a unix.Sockaddr) string {
		if u, ok := a.(*unix.SockaddrUnix); ok {
			// The library returns @ for the zero byte of an abstract name, but also if there is no name at all.
			if u.Name != "@" {
				return unixPath([]byte(u.Name))
			}
		}
		return ""
	}
	p := sampler.Peer{Kind: sampler.PeerUnix, Local: name(local), Remote: name(remote)}
	p.Service = unixService(p.Remote)
	if listens {
		p.Kind = sampler.PeerListener
		p.Service = unixService(p.Local)
	}
	return p
}

func addrPort(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// familyName returns the name for a socket that is neither an internet socket nor a unix socket.
func familyName(domain int) string {
	switch domain {
	case unix.AF_NETLINK:
		return "netlink socket"
	case unix.AF_PACKET:
		return "packet socket"
	case unix.AF_VSOCK:
		return "vsock socket"
	}
	return fmt.Sprintf("socket of family %d", domain)
}
