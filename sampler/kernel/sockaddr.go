package kernel

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// These are Linux's numbers for address families (include/linux/socket.h). They are the same on all machines.
const (
	familyUnix  = 1
	familyINET  = 2
	familyINET6 = 10
)

// parseSockaddr reads a struct sockaddr of a little-endian target. It is the address of a connection's other end. An
// internet address becomes a TCP Peer, because it does not show the socket's type. The caller corrects the type.
func parseSockaddr(b []byte) (sampler.Peer, bool) {
	if len(b) < 2 {
		return sampler.Peer{}, false
	}
	switch binary.LittleEndian.Uint16(b) {
	case familyUnix:
		name := unixPath(b[2:])
		return sampler.Peer{Kind: sampler.PeerUnix, Remote: name, Service: unixService(name)}, name != ""
	case familyINET: // port (big endian), address
		if len(b) < 8 {
			return sampler.Peer{}, false
		}
		a := netip.AddrFrom4([4]byte(b[4:8]))
		return internetPeer(sampler.PeerTCP, netip.AddrPort{}, netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2:]))), true
	case familyINET6: // port (big endian), flow information, address, scope
		if len(b) < 24 {
			return sampler.Peer{}, false
		}
		a := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		return internetPeer(sampler.PeerTCP, netip.AddrPort{}, netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2:]))), true
	}
	return sampler.Peer{}, false
}

// unixPath returns the printable form of sun_path. A path ends at a zero byte. An abstract name begins with a zero
// byte and is shown with @, as ss and lsof do.
func unixPath(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if b[0] == 0 {
		name := strings.TrimRight(string(b[1:]), "\x00")
		if name == "" {
			return ""
		}
		return "@" + strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", "@"), "\uFFFD")
	}
	name, _, _ := strings.Cut(string(b), "\x00")
	return strings.ToValidUTF8(name, "\uFFFD")
}

// internetPeer makes the Peer of a socket from its two ends. An end that is not valid, or has port 0, is unknown.
func internetPeer(kind sampler.PeerKind, local, remote netip.AddrPort) sampler.Peer {
	p := sampler.Peer{Kind: kind}
	if local.IsValid() && (local.Port() != 0 || !local.Addr().IsUnspecified()) {
		p.Local = local.String()
	}
	if kind == sampler.PeerListener {
		p.Service = serviceOf(local)
		return p
	}
	if remote.IsValid() && remote.Port() != 0 {
		p.Remote = remote.String()
		if remote.Port() < ephemeralFirst || !local.IsValid() || local.Port() == 0 || local.Port() >= ephemeralFirst {
			p.Service = serviceOf(remote) // otherwise the remote port is a client's, which the kernel chose
		}
	}
	return p
}
