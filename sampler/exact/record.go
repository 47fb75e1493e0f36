package exact

import "github.com/ddtop/ddtop/sampler"

// Kind is the place at which a record was made.
type Kind uint8

const (
	// Unlocked means that a thread is about to give the scheduler's mutex back.
	Unlocked Kind = iota + 1
	// Slept means that a thread is about to give the mutex back and to sleep until it is signalled.
	Slept
	// Signalled means that a thread wakes another one, and does not own the GVL. No lock need be held: only what the
	// record says of the thread itself counts.
	Signalled
	// Exited means that the native thread ends.
	Exited
	// Began means that the record was made by reading memory once, after the probes were put in. It has the thread's
	// state until the thread's first move.
	Began
)

// Record is the scheduler at an instant, as the native thread in it sees it. All kinds but Signalled hold the mutex, so
// their words are final and fit together.
type Record struct {
	// NS is CLOCK_MONOTONIC in ns.
	NS   int64
	TID  int32
	Kind Kind
	// Queued is true if the thread is in the queue for the GVL, Linked if it is in the list of running threads. Up to
	// Ruby 3.2 (Before33) Queued means that it is about to sleep until it may have the GVL, and Linked and Last mean
	// nothing.
	Queued, Linked, Before33 bool
	// Thread is the address of its rb_thread_t. It is zero if the thread is not one of Ruby's (the timer thread). Owner
	// is the thread that owns the GVL, Last the last one in the queue. They are zero if there is none.
	Thread, Owner, Last uint64
	// DelayNS is how long the native thread has been runnable without a CPU since its start, in ns.
	DelayNS int64
	// Stack and Resumes are as in sampler.Change. Only the record of a wait's end has them. They are zero if not known.
	Stack, Resumes sampler.StackID
}

func (r *Record) state() sampler.GVLState {
	switch {
	case r.Thread == 0:
		return sampler.GVLGone
	case r.Owner == r.Thread && (r.Linked || r.Before33):
		return sampler.GVLHeld
	case r.Owner == r.Thread:
		return sampler.GVLChosen
	case r.Queued:
		return sampler.GVLQueued
	}
	return sampler.GVLReleased
}
