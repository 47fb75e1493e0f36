package gvl

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestDescribeFit: each text is shorter than the text before it, so that a screen can choose. All texts except the last
// name the object that the thread waits for.
func TestDescribeFit(t *testing.T) {
	dict := sampler.NewDictionary()
	dict.SetThread(sampler.ThreadInfo{ID: 7, Name: "web-0"})
	peer := dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Service: "PostgreSQL"})
	for _, c := range []struct {
		ts   ThreadState
		want []string
	}{
		{ThreadState{State: Lock, AtNS: 706e6, Detail: Detail{Kind: "Mutex", Holder: 7, FD: -1}},
			[]string{"waiting 706 ms for Mutex (web-0 has it)", "lock 706 ms, web-0 has it", "waiting 706 ms for Mutex", "lock 706 ms"}},
		{ThreadState{State: Lock, AtNS: 706e6, MovedNS: 700e6, Detail: Detail{FD: -1}}, []string{"waiting ≤706 ms for Mutex", "lock ≤706 ms"}},
		{ThreadState{State: IO, AtNS: 612e6, StillNS: 600e6, Detail: Detail{Op: OpRead, Peer: peer, FD: 23}},
			[]string{"io 612 ms ← read 10.0.0.5:5432 PostgreSQL", "io 612 ms ← 10.0.0.5:5432 PostgreSQL", "io 612 ms ← 10.0.0.5:5432", "io 612 ms"}},
		{ThreadState{State: Waiting, AtNS: 41e6, Detail: Detail{After: IO, FD: -1}},
			[]string{"waiting 41 ms for the GVL, after io", "waiting 41 ms for the GVL", "waiting 41 ms"}},
		{ThreadState{State: Parked, AtNS: 2e9, Detail: Detail{Kind: "Queue", FD: -1}}, []string{"parked 2 s in Queue", "parked 2 s"}},
	} {
		if got := DescribeFit(c.ts, dict); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.ts.State, got, c.want)
		}
	}
}

// TestDescribeIdle: the texts about an idle thread do not say that it does io with a remote end. Only the longest text
// names its listening socket or remote end.
func TestDescribeIdle(t *testing.T) {
	dict := sampler.NewDictionary()
	redis := dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "127.0.0.1:6379", Service: "Redis"})
	listener := dict.InternPeer(sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:9292"})
	for _, c := range []struct {
		d    Detail
		what string
		want []string
	}{
		{Detail{Op: OpRead, Peer: redis, FD: 23}, "waits for work",
			[]string{"idle 612 ms, waits for work from 127.0.0.1:6379 Redis", "idle 612 ms, waits for work", "idle, waits for work", "idle 612 ms", "idle"}},
		{Detail{Op: OpSelect, Peer: listener, FD: 5}, "accepts connections",
			[]string{"idle 612 ms, accepts connections at 0.0.0.0:9292", "idle 612 ms, accepts connections", "idle, accepts connections", "idle 612 ms", "idle"}},
		{Detail{Op: OpSelect, FDs: 2, FD: -1}, "accepts connections",
			[]string{"idle 612 ms, accepts connections", "idle, accepts connections", "idle 612 ms", "idle"}},
	} {
		if got := DescribeIdle(ThreadState{State: IO, AtNS: 612e6, StillNS: 600e6, Detail: c.d}, c.what, dict); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
