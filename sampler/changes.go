package sampler

// GVLState is a thread's relation to the GVL of its ractor, according to the fields of Ruby's scheduler.
type GVLState uint8

const (
	// GVLGone means that the thread has ended, or that its native thread runs another Ruby thread.
	GVLGone GVLState = iota
	// GVLReleased means that the thread neither holds the GVL nor wants it.
	GVLReleased
	// GVLQueued means that the thread waits for the GVL in the queue.
	GVLQueued
	// GVLChosen means that the thread is the next to hold the GVL, but does not run yet.
	GVLChosen
	// GVLHeld means that the thread holds the GVL.
	GVLHeld
)

// String returns the word for messages: gone, released, queued, chosen, held.
func (g GVLState) String() string {
	return wordOf(g, "gone", "gone", "released", "queued", "chosen", "held")
}

// A Change is the moment at which a thread goes from one GVLState to another. It was recorded when it happened. It was
// not found by comparing samples.
type Change struct {
	// AtNS is CLOCK_MONOTONIC in ns. For a live process AtNS and NoCPUNS are rounded to 100 ns. So a recording is
	// small, and holds the same values as were shown live.
	AtNS int64
	// Thread is 0 for a thread that no sample has listed, because it lived too short a time.
	Thread ThreadID
	// TID is the native thread's id in ddtop's own PID namespace.
	TID   int32
	State GVLState
	// NoCPUNS is how long the native thread was runnable without a CPU, in the state that this change ends, in ns. A
	// wait consists of GVLQueued and GVLChosen, and its time without a CPU is known only at its end. So NoCPUNS is 0
	// in the change to GVLChosen. The change that ends GVLChosen has the time for both states.
	NoCPUNS int64
	// Stack is the thread's stack when it gets the GVL after a wait. The thread has had this stack since it gave the
	// GVL away, because only the holder runs Ruby. If the thread already had the GVL, Stack is what it runs at AtNS.
	// Resumes is Stack without the C functions at its inner end: the Ruby code that continues. Zero means not known.
	// Only changes to GVLHeld can have a Stack and Resumes, and not all of them do.
	Stack, Resumes StackID
	// Doubtful is true if changes of the thread between its last recorded Change and this one may be missing.
	Doubtful bool
	// Doing is what the thread does in State from AtNS on, if the kernel reported it. If the thread was already in
	// State, the Change reports only Doing.
	Doing Doing
}

// DoingKind says how a thread that holds the GVL, or has released it, spends its time.
type DoingKind uint8

const (
	// DoingUnknown means that there was no report.
	DoingUnknown DoingKind = iota
	// DoingRuns means that the thread is on a CPU, or lost it to another thread.
	DoingRuns
	// DoingCollects is like DoingRuns, but the thread holds the GVL and collects garbage.
	DoingCollects
	// DoingSleeps means that the thread waits in the kernel.
	DoingSleeps
	// DoingWorks means that the thread has begun or finished work for a request. Its GVLState stays the same.
	DoingWorks
)

// Doing is a report of what a thread did in the kernel. It is made when the thread loses its CPU, or at a tick of the
// CPU's clock.
type Doing struct {
	Kind DoingKind
	// Syscall, FD and FDs are as in Kernel, for a thread that sleeps. A select has FD -1 and FDs 1, because its
	// descriptors are not known.
	Syscall string
	FD, FDs int32
	// Status is Ruby's own word for the thread. Region is true if the thread runs code that gave the GVL away and will
	// take it back.
	Status Status
	Region bool
	// Left is true if the thread has come back to the place where it waits for work. Its earlier work has ended.
	Left bool
	// Mutex is the address of the Mutex that the thread wants to lock. It is 0 if there is none.
	Mutex uint64
	// Work is the request that the thread works for from now on. It is zero if there is none. Unfound is true if the
	// thread has begun a request of which nothing else is known. Only a Doing of kind DoingWorks has these fields, and
	// it has no others.
	Work    WorkID
	Unfound bool
}

// MaxChanges limits Changes.List. If a live process has more changes between two samples, the later sample gets none.
const MaxChanges = 1 << 16

// Changes are all changes of the main ractor's GVL in an interval.
type Changes struct {
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. List has all changes after FromNS up to and including ToNS. ToNS is
	// the sample's TimeNS. FromNS is the time of the previous sample, or a later time from which on changes are known.
	// If it is later, the states of the threads at FromNS are not known, unless Fresh is set. Both times are zero if
	// no changes are known.
	FromNS, ToNS int64
	// Fresh is true if nothing is known of the time before FromNS. Then List begins with the state of each thread at
	// FromNS. The first sample of a part of a recording is Fresh, and its FromNS equals ToNS.
	Fresh bool
	// List is in order of time.
	List []Change
}

// Known reports whether the changes of this interval are known.
func (c *Changes) Known() bool { return c.ToNS != 0 }
