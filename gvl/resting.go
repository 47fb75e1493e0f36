package gvl

import "github.com/ddtop/ddtop/sampler"

// Resting tells input and output that is work from a server's waiting for somebody to want something. It is for one
// goroutine.
type Resting struct {
	dict    *sampler.Dictionary
	classes *stackClasses
}

// NewResting returns a Resting for samples whose IDs point into dict.
func NewResting(dict *sampler.Dictionary) *Resting {
	return &Resting{dict: dict, classes: newStackClasses(dict)}
}

// IdleIO reports whether a thread that is in state IO has nothing to do: it accepts connections, waits at a listening socket, or
// is in the loop of a server or a poller that docs/findings.md counts as rest (Puma's server and reactor, a Sidekiq processor
// that asks for a job).
func (r *Resting) IdleIO(ts *ThreadState) bool {
	if ts.State != IO {
		return false
	}
	if ts.Detail.Op == OpAccept || r.classes.of(ts.Stack)&flagIdle != 0 {
		return true
	}
	return ts.Detail.Peer != 0 && r.dict != nil && r.dict.Peer(ts.Detail.Peer).Kind == sampler.PeerListener
}
