package account

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// PeerGroups groups connections by their remote end. For example, all connections to one database are one group.
type PeerGroups struct {
	Dict   *sampler.Dictionary
	groups []uint32 // by PeerID
	byName map[string]uint32
	list   []PeerGroup
}

// PeerGroup is one remote end. Peer and ID belong to the newest connection to it. Inbound is set if the remote end
// opened this connection, as a client does.
type PeerGroup struct {
	Peer    sampler.Peer
	ID      sampler.PeerID
	Inbound bool
}

// GroupOf returns the number of a peer's group. It is 0 if the peer belongs to no group.
func (g *PeerGroups) GroupOf(id sampler.PeerID) uint32 {
	if id == 0 || g.Dict == nil {
		return 0
	}
	if int(id) >= len(g.groups) {
		_, _, peers, _, _ := g.Dict.Sizes()
		if int(id) > peers {
			return 0
		}
		g.groups = append(g.groups, make([]uint32, peers+1-len(g.groups))...)
	}
	if n := g.groups[id]; n != 0 {
		return n
	}
	of := id
	if g.byName == nil {
		g.byName = make(map[string]uint32)
		g.list = append(g.list, PeerGroup{})
	}
	p := g.Dict.Peer(id)
	in := clientOf(p)
	name := gvl.PeerKindWord(p.Kind) + " " + gvl.PeerName(p)
	if in {
		name = "in " + p.Local
	}
	n, ok := g.byName[name]
	if !ok && len(g.list) > maxPeerGroups {
		// The limit of groups is reached. So this remote end gets the group that all further remote ends of the same
		// kind share. This group has no name.
		p, id, in, name = sampler.Peer{Kind: p.Kind}, 0, false, gvl.PeerKindWord(p.Kind)
		n, ok = g.byName[name]
	}
	if !ok {
		n = uint32(len(g.list))
		g.list = append(g.list, PeerGroup{})
		g.byName[name] = n
	}
	// The newest peer represents the group, because the Dictionary may already have evicted older peers.
	g.list[n] = PeerGroup{Peer: p, ID: id, Inbound: in}
	g.groups[of] = n
	return n
}

// Group returns the group with a number that GroupOf has returned.
func (g *PeerGroups) Group(n uint32) *PeerGroup { return &g.list[n] }

// clientOf reports whether the other end of a connection is a client that has opened the connection. A Peer has the
// port of an end only if a program chose this port. It lacks a port that the kernel chose. So if this end has a port
// and the other end has none, the other end opened the connection.
func clientOf(p sampler.Peer) bool {
	return p.Kind == sampler.PeerTCP && p.Service == "" && hasPort(p.Local) && !hasPort(p.Remote)
}

func hasPort(addr string) bool {
	i := strings.LastIndexByte(addr, ':')
	return i > 0 && (strings.IndexByte(addr, ':') == i || strings.HasPrefix(addr, "["))
}

// maxPeerGroups limits the number of groups. Beyond it, all new remote ends of one kind share one group.
const maxPeerGroups = 4096
