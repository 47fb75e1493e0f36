package gvl

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// peerGroups puts the connections to one remote end together.
type peerGroups struct {
	dict   *sampler.Dictionary
	groups []uint32 // by PeerID
	byName map[string]uint32
	list   []peerGroup
}

// peerGroup is one remote end. peer and id are those of its newest connection; inbound: the other end opened it.
type peerGroup struct {
	peer    sampler.Peer
	id      sampler.PeerID
	inbound bool
}

// of returns a peer's group; 0 for none.
func (g *peerGroups) of(id sampler.PeerID) uint32 {
	if id == 0 || g.dict == nil {
		return 0
	}
	if int(id) >= len(g.groups) {
		_, _, peers, _, _ := g.dict.Sizes()
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
		g.list = append(g.list, peerGroup{})
	}
	p := g.dict.Peer(id)
	in := clientOf(p)
	name := peerKindWord(p.Kind) + " " + peerName(p)
	if in {
		name = "in " + p.Local
	}
	n, ok := g.byName[name]
	if !ok && len(g.list) > maxPeerGroups {
		// The others of a kind are one group without a name.
		p, id, in, name = sampler.Peer{Kind: p.Kind}, 0, false, peerKindWord(p.Kind)
		n, ok = g.byName[name]
	}
	if !ok {
		n = uint32(len(g.list))
		g.list = append(g.list, peerGroup{})
		g.byName[name] = n
	}
	// The newest stands for all: the Dictionary may have evicted those before.
	g.list[n] = peerGroup{peer: p, id: id, inbound: in}
	g.groups[of] = n
	return n
}

// group returns the group of a number that of has returned.
func (g *peerGroups) group(n uint32) *peerGroup { return &g.list[n] }

// clientOf reports whether a connection was opened by the other end, a client that the thread serves: this end has a
// port of its own choice, the other one the kernel's (whose number the reader leaves out).
func clientOf(p sampler.Peer) bool {
	return p.Kind == sampler.PeerTCP && p.Service == "" && hasPort(p.Local) && !hasPort(p.Remote)
}

func hasPort(addr string) bool {
	i := strings.LastIndexByte(addr, ':')
	return i > 0 && (strings.IndexByte(addr, ':') == i || strings.HasPrefix(addr, "["))
}

// maxPeerGroups bounds the remote ends that are distinguished for as long as a process is watched.
const maxPeerGroups = 4096
