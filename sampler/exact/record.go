package exact

import "github.com/ddtop/ddtop/sampler"

// Kind is the reason why a record was made.
type Kind uint8

const (
	// Unlocked means that a thread is about to unlock the scheduler's mutex.
	Unlocked Kind = iota + 1
	// Slept means that a thread is about to unlock the scheduler's mutex and to sleep until another thread signals it.
	Slept
	// Signalled means that a thread wakes another thread and does not own the GVL. It is possible that the thread does
	// not hold the scheduler's mutex, so the scheduler's words in the record may be inconsistent. Only the facts about
	// the thread that made the record are valid.
	Signalled
	// Exited means that the native thread ends.
	Exited
	// Began marks a record that no probe has made. ddtop makes it from the process's memory, which it reads once after
	// it has put the probes in. The record gives the state of a thread that has not made a record itself since then.
	Began
)

// Record is the state of the scheduler at one instant, as seen by the native thread that makes the record. This thread
// holds the scheduler's mutex, except in a Signalled record. So all words of a record belong to the same instant.
type Record struct {
	// NS is CLOCK_MONOTONIC in ns.
	NS   int64
	TID  int32
	Kind Kind
	// Queued is true if the thread is in the queue for the GVL. Linked is true if the thread is in the list of running
	// threads. Before33 is true up to Ruby 3.2. In these releases, Queued means that the thread is about to sleep until
	// it gets the GVL, and Linked and Last have no meaning.
	Queued, Linked, Before33 bool
	// Some is true if the probes see only some changes of the GVL's owner (package switches). If a thread's record then
	// names another thread as the owner, the owner may have got the GVL without a wait.
	Some bool
	// Thread is the address of the rb_thread_t. It is zero if the thread is not one of Ruby's threads, such as the
	// timer thread. Owner is the thread that owns the GVL. Last is the last thread in the queue. They are zero if
	// there is no such thread.
	Thread, Owner, Last uint64
	// DelayNS is how long the native thread has been runnable without a CPU since its start, in ns.
	DelayNS int64
	// Stack and Resumes have the same meaning as in sampler.Change. Only the record that ends a wait can have them.
	// They are zero if unknown.
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
