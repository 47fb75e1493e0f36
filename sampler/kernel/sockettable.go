package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// minTableIntervalNS is the shortest interval between two searches for sockets, in ns. A search can take the
	// kernel milliseconds, because it walks the whole hash table of connections.
	minTableIntervalNS = 5e9
	// tableCostFactor sets the shortest pause after a search: tableCostFactor times the search's length. So searches
	// take at most 1 % of the time.
	tableCostFactor = 100
	// maxTableBytes limits how much is read of one table (about 400,000 connections), in bytes.
	maxTableBytes = 64 << 20
	// maxWanted limits how many sockets can wait until a search finds their other ends.
	maxWanted = 4096
	// absentNS is the pause before ddtop searches again for a socket that was not found, in ns.
	absentNS = 30e9
	// unnamedNS is the pause before ddtop searches again for a socket whose other end was not known, in ns.
	unnamedNS = 5e9
)

// socketTable has the results of the last searches for sockets, at most maxWanted of them.
type socketTable struct {
	byInode map[uint64]tableEntry
	nextNS  int64
	// noDiag is true if ddtop may not ask the kernel for the target's sockets. It reads /proc/PID/net instead.
	noDiag bool
}

// tableEntry is the result of a search for a socket. It is valid until untilNS. If untilNS is zero, it is always valid.
type tableEntry struct {
	peer    sampler.Peer
	found   bool
	untilNS int64
}

// fromTable returns the result of the last search for a socket. If there is none, it requests a search.
func (p *peers) fromTable(inode uint64) (sampler.Peer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.table.byInode[inode]
	if (!ok || known.untilNS != 0 && monotonic() > known.untilNS) && len(p.wanted) < maxWanted {
		p.wanted[inode] = struct{}{}
	}
	return known.peer, known.found
}

// ResolveSockets finds the ends of sockets for which Describe found none. It asks the kernel for the sockets of the
// target's network namespace (sock_diag(7)). If ddtop may not ask, it reads the tables
// /proc/PID/net/{tcp,tcp6,udp,udp6,unix}. This can take milliseconds, so do not call it from the sampling goroutine.
//
// It may be called at any rate. It searches only if a socket, or the program at its other end, is unknown. It searches
// at most every 5 s, and less often if there are many sockets. named is the number of sockets that it has found. nowNS
// is CLOCK_MONOTONIC. If ctx ends during the search for listeners, the next call starts that search again.
func (t *Tasks) ResolveSockets(ctx context.Context, nowNS int64) (named int, err error) {
	return t.peers.resolve(ctx, nowNS)
}

func (p *peers) resolve(ctx context.Context, nowNS int64) (int, error) {
	p.mu.Lock()
	due := len(p.wanted)+len(p.listeners.wanted) > 0 && nowNS >= p.table.nextNS
	wanted, addresses := p.wanted, p.listeners.wanted
	if due {
		p.wanted, p.listeners.wanted = make(map[uint64]struct{}), nil
		p.table.nextNS = nowNS + minTableIntervalNS
	}
	p.mu.Unlock()
	if !due {
		return 0, nil
	}
	start := monotonic()
	diag := p.diag()
	if diag != nil {
		defer diag.close()
	}
	found := make(map[uint64]sampler.Peer)
	var errs error
	if len(wanted) > 0 && (diag == nil || diag.named(wanted, found) != nil) {
		for _, tab := range socketTables {
			errs = errors.Join(errs, p.readTable(tab, wanted, found))
		}
	}
	var who map[netip.AddrPort]holder
	if len(addresses) > 0 {
		who = p.findListeners(ctx, diag, addresses)
	}
	end := monotonic()
	cost := end - start
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.keep(wanted, found, end)
	if who == nil {
		for at := range addresses {
			p.listeners.want(at)
		}
	}
	p.know(who)
	p.table.nextNS = nowNS + max(minTableIntervalNS, cost*tableCostFactor)
	return len(found), errs
}

// diag opens a sockDiag for the target's network namespace. It returns nil if ddtop may not ask the kernel.
func (p *peers) diag() *sockDiag {
	if p.table.noDiag { // only resolve uses noDiag
		return nil
	}
	d, err := openSockDiag(p.proc)
	if err != nil {
		p.table.noDiag = !errors.Is(err, ErrGone) && !Exhausted(err)
		return nil
	}
	return d
}

// keep stores the results of a search that ended at atNS. wanted are the sockets that were searched for.
func (t *socketTable) keep(wanted map[uint64]struct{}, found map[uint64]sampler.Peer, atNS int64) {
	if t.byInode == nil || len(t.byInode)+len(wanted) > maxWanted {
		t.byInode = make(map[uint64]tableEntry, len(wanted))
	}
	for inode := range wanted {
		peer, ok := found[inode]
		entry := tableEntry{peer: peer, found: ok}
		switch {
		case !ok:
			entry.untilNS = atNS + absentNS
		case peer.Remote == "" && peer.Kind != sampler.PeerListener:
			entry.untilNS = atNS + unnamedNS
		}
		t.byInode[inode] = entry
	}
}

// table is one of the files of /proc/PID/net.
type table struct {
	name  string
	parse func(line []byte) (inode uint64, p sampler.Peer, ok bool)
}

var socketTables = []table{
	{"tcp", func(b []byte) (uint64, sampler.Peer, bool) { return parseInternet(b, sampler.PeerTCP) }},
	{"tcp6", func(b []byte) (uint64, sampler.Peer, bool) { return parseInternet(b, sampler.PeerTCP) }},
	{"udp", func(b []byte) (uint64, sampler.Peer, bool) { return parseInternet(b, sampler.PeerUDP) }},
	{"udp6", func(b []byte) (uint64, sampler.Peer, bool) { return parseInternet(b, sampler.PeerUDP) }},
	{"unix", parseUnix},
}

// readTable reads one table line by line. If the table does not exist, as tcp6 without IPv6, readTable finds nothing
// and returns no error.
func (p *peers) readTable(tab table, wanted map[uint64]struct{}, found map[uint64]sampler.Peer) error {
	path := fmt.Sprintf("/proc/%d/net/%s", p.pid, tab.name)
	fd, err := p.proc.open("net/" + tab.name)
	if err != nil {
		if errors.Is(&Error{Err: err}, ErrGone) {
			return nil
		}
		return &Error{"open", path, err}
	}
	defer closeFD(fd)
	buf := make([]byte, 64<<10)
	kept := 0
	for off := int64(0); off < maxTableBytes; {
		n, err := readMore(fd, buf[kept:], off)
		if err != nil {
			return &Error{"read", path, err}
		}
		if n == 0 {
			return nil
		}
		off += int64(n)
		kept = copy(buf, tab.lines(buf[:kept+n], wanted, found))
		if kept == len(buf) {
			return &Error{"read", path, fmt.Errorf("%w: a line of %d bytes", errFormat, kept)}
		}
	}
	return &Error{"read", path, fmt.Errorf("%w: more than %d bytes", errFormat, maxTableBytes)}
}

// lines reads the complete lines of b and returns the part of the last line that is still incomplete.
func (tab *table) lines(b []byte, wanted map[uint64]struct{}, found map[uint64]sampler.Peer) []byte {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return b
		}
		if inode, peer, ok := tab.parse(b[:i]); ok {
			if _, isWanted := wanted[inode]; isWanted {
				found[inode] = peer
			}
		}
		b = b[i+1:]
	}
}

// parseInternet reads a line of net/tcp, tcp6, udp or udp6 (Documentation/networking/proc_net_tcp.rst). The fields are
// the number, then the local and the remote address:port in hexadecimal, then the state. The tenth field is the inode.
func parseInternet(line []byte, kind sampler.PeerKind) (uint64, sampler.Peer, bool) {
	const (
		fieldLocal, fieldRemote, fieldState, fieldInode = 1, 2, 3, 9
		stateListen                                     = "0A"
	)
	var local, remote netip.AddrPort
	n := 0
	for f := range bytes.FieldsSeq(line) {
		ok := true
		switch n {
		case fieldLocal:
			local, ok = parseTableAddr(f)
		case fieldRemote:
			remote, ok = parseTableAddr(f)
		case fieldState:
			if kind == sampler.PeerTCP && string(f) == stateListen {
				kind = sampler.PeerListener
			}
		case fieldInode:
			inode, rest, ok := takeUint(f)
			return inode, internetPeer(kind, local, remote), ok && len(rest) == 0 && inode != 0
		}
		if !ok {
			break
		}
		n++
	}
	return 0, sampler.Peer{}, false
}

// parseTableAddr reads an address and a port such as 0100007F:1538. The address has 32-bit words in the machine's byte
// order. This is little endian on both machines that ddtop supports. The port is a hexadecimal number.
func parseTableAddr(b []byte) (netip.AddrPort, bool) {
	host, port, ok := bytes.Cut(b, []byte(":"))
	if !ok || len(host) != 8 && len(host) != 32 {
		return netip.AddrPort{}, false
	}
	portNumber, rest, ok := takeHex(port)
	if !ok || len(rest) != 0 || portNumber > 0xffff {
		return netip.AddrPort{}, false
	}
	var a [16]byte
	for i := 0; i < len(host); i += 8 {
		word, rest, ok := takeHex(host[i : i+8])
		if !ok || len(rest) != 0 {
			return netip.AddrPort{}, false
		}
		binary.LittleEndian.PutUint32(a[i/2:], uint32(word))
	}
	addr := netip.AddrFrom4([4]byte(a[:4]))
	if len(host) == 32 {
		addr = netip.AddrFrom16(a).Unmap()
	}
	return netip.AddrPortFrom(addr, uint16(portNumber)), true
}

// parseUnix reads a line of net/unix: "Num: RefCount Protocol Flags Type St Inode Path". The path is the socket's own.
// The table does not show to which socket it is connected.
func parseUnix(line []byte) (uint64, sampler.Peer, bool) {
	const (
		fieldFlags, fieldInode = 3, 6
		flagListens            = 1 << 16 // __SO_ACCEPTCON
	)
	kind := sampler.PeerUnix
	for n := 0; n <= fieldInode; n++ {
		line = skipSpaces(line)
		end := bytes.IndexByte(line, ' ')
		if end < 0 {
			end = len(line)
		}
		f := line[:end]
		line = line[end:]
		switch n {
		case fieldFlags:
			if flags, _, ok := takeHex(f); ok && flags&flagListens != 0 {
				kind = sampler.PeerListener
			}
		case fieldInode:
			inode, rest, ok := takeUint(f)
			if !ok || len(rest) != 0 || inode == 0 {
				return 0, sampler.Peer{}, false
			}
			name := ""
			if len(line) > 1 {
				name = unixPath(line[1:])
			}
			p := sampler.Peer{Kind: kind, Local: name}
			if kind == sampler.PeerListener {
				p.Service = unixService(name)
			}
			return inode, p, true
		}
	}
	return 0, sampler.Peer{}, false
}
