package account

import (
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestPeerGroupsAreBounded: if a program connects to more and more remote ends, ddtop distinguishes only a limited
// number of them. A remote end that ddtop already knows keeps its group.
func TestPeerGroupsAreBounded(t *testing.T) {
	d := sampler.NewDictionary()
	g := PeerGroups{Dict: d}
	peer := func(i int) sampler.PeerID {
		return d.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: fmt.Sprintf("10.0.0.5:%d", i)})
	}
	first := g.GroupOf(peer(0))
	for i := range 3 * maxPeerGroups {
		g.GroupOf(peer(i))
	}
	if n := len(g.list); n > maxPeerGroups+2 || n < maxPeerGroups {
		t.Errorf("%d groups", n)
	}
	if g.GroupOf(peer(0)) != first || g.list[first].Peer.Remote != "10.0.0.5:0" {
		t.Errorf("the first group is %+v", g.list[first])
	}
	others := g.GroupOf(peer(3*maxPeerGroups - 1))
	if o := g.list[others]; o.ID != 0 || o.Peer != (sampler.Peer{Kind: sampler.PeerTCP}) || others != g.GroupOf(peer(3*maxPeerGroups-2)) {
		t.Errorf("those past the limit are in %+v", o)
	}
}
