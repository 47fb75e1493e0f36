package sampler

// GVLState is a thread's relation to the GVL of its ractor, according to the fields of Ruby's scheduler.
type GVLState uint8

const (
	// GVLGone means that the thread has ended. It can also mean that its native thread now runs another Ruby thread.
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

// String returns the word that messages use for the state: gone, released, queued, chosen, held.
func (g GVLState) String() string {
	return wordOf(g, "gone", "gone", "released", "queued", "chosen", "held")
}

// A Change is the moment at which a thread goes from one GVLState to another. It was recorded at this moment, not found
// later by comparing samples.
type Change struct {
	// AtNS is CLOCK_MONOTONIC in ns. For a live process AtNS and NoCPUNS are rounded to 100 ns before they are shown.
	// This keeps a recording small, and its values are the same as the ones shown live.
	AtNS int64
	// Thread is 0 for a thread that is in no sample, because it lived too short a time.
	Thread ThreadID
	// TID is the native thread's id in ddtop's own PID namespace.
	TID   int32
	State GVLState
	// NoCPUNS is how long the native thread was runnable but had no CPU, in ns. It counts the state that ends with this
	// change. The states GVLQueued and GVLChosen together are a wait, and its time without a CPU is known only at its
	// end. So the change from GVLQueued to GVLChosen has NoCPUNS 0. The change that ends GVLChosen has the time of both
	// states.
	NoCPUNS int64
	// Stack is the thread's stack when it gets the GVL after a wait. The thread has had this stack since it gave the
	// GVL away, because only the holder of the GVL runs Ruby code. If the thread already had the GVL, Stack is what it
	// runs at AtNS. Resumes is Stack without its innermost C functions: the Ruby code that continues. Zero means that
	// the stack is not known. Only changes to GVLHeld can have a Stack and Resumes, and not all of them do.
	Stack, Resumes StackID
	// Doubtful is true if the record may lack changes of this thread, between its previous recorded Change and this
	// one.
	Doubtful bool
	// Doing is what the thread does from AtNS on, while it is in State. It is empty if the kernel did not report it. A
	// Change can also report a new Doing alone, for a thread that was already in State.
	Doing Doing
}

// DoingKind says how a thread spends its time while it holds the GVL, or while it neither holds nor wants it.
type DoingKind uint8

const (
	// DoingUnknown means that there was no report.
	DoingUnknown DoingKind = iota
	// DoingRuns means that the thread is on a CPU, or that it is runnable and another thread took its CPU.
	DoingRuns
	// DoingCollects is like DoingRuns, but the thread holds the GVL and collects garbage.
	DoingCollects
	// DoingSleeps means that the thread waits in the kernel.
	DoingSleeps
	// DoingWorks means that the thread has begun or finished work for a request. Its GVLState stays the same.
	DoingWorks
)

// Doing is a report of what a thread did in the kernel. The report is made when the thread loses its CPU, or when the
// clock of its CPU ticks.
type Doing struct {
	Kind DoingKind
	// Syscall, FD and FDs are as in Kernel, for a thread that sleeps. The descriptors of a select are not known, so it
	// has FD -1 and FDs 1.
	Syscall string
	FD, FDs int32
	// Status is Ruby's own word for the state of the thread. Region is true if the thread has given the GVL away for
	// the C code that it runs, and will take the GVL back afterwards.
	Status Status
	Region bool
	// Left is true if the thread has come back to the place where it waits for its next work. So its earlier work has
	// ended.
	Left bool
	// Mutex is the address of the Mutex that the thread wants to lock. It is 0 if there is none.
	Mutex uint64
	// Work is the request that the thread works for from now on. It is zero if there is none. Unfound is true if the
	// thread has begun a request of which nothing else is known. Only a Doing of kind DoingWorks has these two fields,
	// and all its other fields are empty.
	Work    WorkID
	Unfound bool
}

// MaxChanges limits how many changes Changes.List has. If there are more changes between two samples of a live process,
// the later sample has none at all.
const MaxChanges = 1 << 16

// Changes are all changes of the main ractor's GVL in an interval.
type Changes struct {
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. List has all changes after FromNS up to and including ToNS. ToNS is
	// the sample's TimeNS. FromNS is usually the time of the previous sample. It is later if changes are known only
	// from a later time on. Then the states of the threads at FromNS are not known, unless Fresh is set. Both times are
	// zero if no changes are known.
	FromNS, ToNS int64
	// Fresh is true if nothing is known of the time before FromNS. Then List begins with the state of each thread at
	// FromNS. A recording consists of parts, and the first sample of each part is Fresh. Its FromNS equals ToNS.
	Fresh bool
	// List is in order of time.
	List []Change
}

// Known reports whether the changes of this interval are known.
func (c *Changes) Known() bool { return c.ToNS != 0 }
