// Package resting decides whether a waiting thread is busy or at rest.
package resting

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/gates"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/sampler"
)

// Resting decides whether a thread that waits is busy or at rest. For example, a server's thread is at rest while it
// waits for the next client. It is not safe for concurrent use.
type Resting struct {
	dict    *sampler.Dictionary
	classes *stackkind.Classes
	// Gates are the gates (methods that let few threads in, such as Pool#with) that were found in the same stream. It
	// can be nil.
	Gates *gates.Gates
}

// New returns a Resting for samples whose IDs point into dict.
func New(dict *sampler.Dictionary) *Resting {
	return &Resting{dict: dict, classes: stackkind.New(dict)}
}

// Idle returns what an idle thread in state IO waits for: "accepts connections". It returns "" for all other threads.
// An idle thread accepts connections, waits at a listening socket, or is in a loop of a server or poller that counts
// as rest (docs/reference/findings.md). Examples are Puma's reactor, and a Sidekiq processor that asks for a job.
func (r *Resting) Idle(st gvl.State, d *gvl.Detail, stack sampler.StackID) string {
	flags := r.classes.Of(stack)
	switch {
	case st != gvl.IO:
		return ""
	case d.Op == gvl.OpAccept, flags&stackkind.Accepts != 0,
		d.Peer != 0 && r.dict != nil && r.dict.Peer(d.Peer).Kind == sampler.PeerListener:
		return "accepts connections"
	case flags&stackkind.Idle == 0:
		return ""
	case flags&stackkind.Server != 0:
		return "waits for work"
	}
	return "waits for input"
}

// Rests reports whether a thread has nothing to do. For such a thread, the method State returns Parked.
func (r *Resting) Rests(st gvl.State, d *gvl.Detail, stack sampler.StackID, work sampler.WorkID) bool {
	return r.State(st, d, stack, work) == gvl.Parked
}

// State returns the state for a screen that shows only work. Parked stands for all rest: threads for which Idle returns
// a text, and sleep outside of requests and jobs. Lock includes two kinds of waits: for an object that other threads
// give back (pool_wait), and for another thread during a request or job (thread_wait).
func (r *Resting) State(st gvl.State, d *gvl.Detail, stack sampler.StackID, work sampler.WorkID) gvl.State {
	if r.Gates != nil && r.Gates.Closed(st, d, stack) != nil {
		return gvl.Lock
	}
	if r.Idle(st, d, stack) != "" {
		return gvl.Parked
	}
	if st != gvl.Parked && st != gvl.Sleeping {
		return st
	}
	flags := r.classes.Of(stack).With(work)
	switch atWork := AtWork(st, flags); {
	case atWork && st == gvl.Parked, flags&stackkind.Pool != 0:
		return gvl.Lock
	case atWork:
		return gvl.Sleeping
	}
	return gvl.Parked
}

// AtWork reports whether a thread sleeps, or waits for another thread, in the middle of a request or a job.
func AtWork(s gvl.State, flags stackkind.Flags) bool {
	return (s == gvl.Sleeping || s == gvl.Parked) && flags.Serves() && flags&stackkind.Pool == 0
}
