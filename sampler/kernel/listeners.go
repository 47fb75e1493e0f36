package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxListeners is the largest number of addresses of this machine for which ddtop remembers the listening process.
	maxListeners = 256
	// linksPerLook is the number of descriptors after which the search checks whether it was cancelled. Reading so many
	// descriptors takes less than a millisecond.
	linksPerLook = 256
	// maxListenerLinks limits how many descriptors, of all processes together, one search for listening sockets reads.
	// Each takes 3 µs. The processes with the lowest PIDs come first.
	maxListenerLinks = 1 << 16
	// listenerNS is how long the result of a search for a listener is valid, in ns. If it is older, the next new
	// connection to the listener starts another search.
	listenerNS = 30e9
)

// listeners are the programs on this machine to which the target is connected. ResolveSockets finds them. The mutex mu
// in peers protects them.
type listeners struct {
	known  map[netip.AddrPort]listenerAt
	wanted map[netip.AddrPort]struct{}
}

// listenerAt is the process that listened at an address when ddtop searched, at the time atNS (CLOCK_MONOTONIC).
type listenerAt struct {
	holder
	atNS int64
}

// holder is a process that holds a socket, and its name, such as "ruby (pid 12)". It is zero if ddtop found none.
type holder struct {
	pid  int
	name string
}

// withListener adds to a peer on this machine the name of the program that listens at the peer's address. If the
// program is not known yet, withListener requests a search for it. The caller must not hold mu.
func (p *peers) withListener(found sampler.Peer) sampler.Peer {
	if found.Kind != sampler.PeerTCP {
		return found
	}
	remote, err := netip.ParseAddrPort(found.Remote)
	if err != nil {
		return found
	}
	local, err := netip.ParseAddrPort(found.Local)
	if !remote.Addr().IsLoopback() && (err != nil || local.Addr() != remote.Addr()) {
		return found
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.listeners.known[remote]
	found.Process = at.name
	if !ok || monotonic()-at.atNS > listenerNS {
		p.listeners.want(remote)
	}
	return found
}

// want requests a search for the listener at an address. The caller holds mu.
func (l *listeners) want(at netip.AddrPort) {
	if len(l.wanted) >= maxListeners {
		return
	}
	if l.wanted == nil {
		l.wanted = make(map[netip.AddrPort]struct{})
	}
	l.wanted[at] = struct{}{}
}

// know stores listeners by address. If the listener at an address has changed, ddtop describes its connections again.
// The caller holds mu.
func (p *peers) know(who map[netip.AddrPort]holder) {
	if len(who) == 0 {
		return
	}
	if p.listeners.known == nil || len(p.listeners.known)+len(who) > maxListeners {
		p.listeners.known = make(map[netip.AddrPort]listenerAt)
	}
	now, others := monotonic(), false
	for at, h := range who {
		others = others || p.listeners.known[at].name != h.name
		p.listeners.known[at] = listenerAt{h, now}
	}
	if !others {
		return
	}
	for fd, known := range p.byFD {
		if known.kind == sampler.PeerTCP {
			known.unsettled = true
			p.byFD[fd] = known
		}
	}
}

// findListeners searches for the programs that listen at the wanted addresses. It finds the sockets in the target's
// network namespace, and their processes by the descriptors that ddtop can read. It first searches the processes that
// held a socket last time. If several processes share a socket, as a server's workers do, it names the one with the
// lowest PID. It returns nil if ctx ends first.
func (p *peers) findListeners(ctx context.Context, diag *sockDiag, wanted map[netip.AddrPort]struct{}) map[netip.AddrPort]holder {
	out := make(map[netip.AddrPort]holder, len(wanted))
	for w := range wanted {
		out[w] = holder{}
	}
	byLink, err := listeningSockets(diag, wanted)
	if err != nil {
		byLink = p.listeningInTables(wanted)
	}
	if len(byLink) == 0 {
		return out
	}
	left := maxListenerLinks
	for _, pid := range p.likelyHolders(wanted) {
		if ctx.Err() != nil {
			return nil
		}
		links := descriptors(pid, left)
		name := ""
		for i, l := range links {
			if i%linksPerLook == linksPerLook-1 && ctx.Err() != nil {
				return nil
			}
			text, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, l))
			if err != nil || len(byLink[text]) == 0 {
				continue
			}
			if name == "" {
				if name = programName(pid); name == "" {
					break // the process has ended
				}
			}
			for _, at := range byLink[text] {
				if out[at].pid == 0 {
					out[at] = holder{pid, name}
				}
			}
			if delete(byLink, text); len(byLink) == 0 {
				return out
			}
		}
		if left -= len(links); left <= 0 {
			break
		}
	}
	return out
}

// listeningSockets asks the kernel which sockets listen at the wanted addresses. The keys of the result are texts as in
// the links of /proc/PID/fd.
func listeningSockets(diag *sockDiag, wanted map[netip.AddrPort]struct{}) (map[string][]netip.AddrPort, error) {
	if diag == nil {
		return nil, ErrUnsupported
	}
	byLink := make(map[string][]netip.AddrPort)
	for at := range wanted {
		inode, err := diag.listener(at)
		if err != nil {
			return nil, err
		}
		if inode != 0 {
			link := socketLink(inode)
			byLink[link] = append(byLink[link], at)
		}
	}
	return byLink, nil
}

// listeningInTables does the same as listeningSockets, but reads the tables in /proc of the target's network namespace.
func (p *peers) listeningInTables(wanted map[netip.AddrPort]struct{}) map[string][]netip.AddrPort {
	byLink := make(map[string][]netip.AddrPort) // one socket may listen at all addresses
	for _, tab := range socketTables[:2] {
		found := make(map[uint64]sampler.Peer)
		listening := table{tab.name, func(line []byte) (uint64, sampler.Peer, bool) {
			inode, peer, ok := tab.parse(line)
			if !ok || peer.Kind != sampler.PeerListener {
				return 0, peer, false
			}
			at, err := netip.ParseAddrPort(peer.Local)
			if err != nil {
				return 0, peer, false
			}
			for w := range wanted {
				if w.Port() == at.Port() && (at.Addr().IsUnspecified() || at.Addr() == w.Addr()) {
					link := socketLink(inode)
					byLink[link] = append(byLink[link], w)
				}
			}
			return 0, peer, false
		}}
		// An unreadable table is no error: ddtop just finds no program through it.
		_ = p.readTable(listening, nil, found)
	}
	return byLink
}

// socketLink returns the text that the link of a socket in /proc/PID/fd has.
func socketLink(inode uint64) string { return "socket:[" + strconv.FormatUint(inode, 10) + "]" }

// likelyHolders lists all processes. The processes that last listened at one of the wanted addresses come first. The
// others follow in the order of their PIDs.
func (p *peers) likelyHolders(wanted map[netip.AddrPort]struct{}) []int {
	all, _ := processes() // without a list no process is found
	var first []int
	p.mu.Lock()
	for at := range wanted {
		if h := p.listeners.known[at].holder; h.pid != 0 && !slices.Contains(first, h.pid) && slices.Contains(all, h.pid) {
			first = append(first, h.pid)
		}
	}
	p.mu.Unlock()
	slices.Sort(first)
	all = slices.DeleteFunc(all, func(pid int) bool { return slices.Contains(first, pid) })
	return append(first, all...)
}

// descriptors lists at most limit descriptors of a process. It lists none if the process has ended or may not be
// read.
func descriptors(pid, limit int) []string {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(limit) // after an error, the names read before it are used
	return names
}

// programName returns a process's name and PID as text, such as "ruby (pid 12)". It is empty if the process has ended.
func programName(pid int) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(comm)), "\uFFFD") + " (pid " + strconv.Itoa(pid) + ")"
}

// processes lists all processes, in the order of their PIDs.
func processes() ([]int, error) {
	list, err := listNumbers(noFD, "/proc", "/proc", nil)
	pids := make([]int, len(list))
	for i, pid := range list {
		pids[i] = int(pid)
	}
	slices.Sort(pids)
	return pids, err
}
