package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestIdleIO(t *testing.T) {
	s := newScene(t)
	listener := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:9292"})
	client := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Local: "10.0.0.1:9292", Remote: "10.0.0.9"})
	r := NewResting(s.dict)
	for _, c := range []struct {
		what string
		ts   ThreadState
		want bool
	}{
		{"accepts", ThreadState{State: IO, Detail: Detail{Op: OpAccept}}, true},
		{"selects at a listening socket", ThreadState{State: IO, Detail: Detail{Op: OpSelect, Peer: listener}}, true},
		{"Puma's loop", ThreadState{State: IO, Detail: Detail{Op: OpSelect, FDs: 2}, Stack: s.stack("c:IO.select", "block in Puma::Server#handle_servers")}, true},
		{"a job asked for", ThreadState{State: IO, Detail: Detail{Op: OpRead}, Stack: s.stack("c:IO#wait_readable", "Redis#brpop", "Sidekiq::BasicFetch#retrieve_work")}, true},
		{"reads a request", ThreadState{State: IO, Detail: Detail{Op: OpRead, Peer: client}, Stack: s.stack("c:IO#read", "App#call")}, false},
		{"selects for an answer", ThreadState{State: IO, Detail: Detail{Op: OpSelect, FDs: 1}, Stack: s.stack("c:IO.select", "Net::BufferedIO#rbuf_fill")}, false},
		{"parked", ThreadState{State: Parked}, false},
	} {
		if got := r.IdleIO(c.ts.State, &c.ts.Detail, c.ts.Stack); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
