package sampler

// GVLState says whether a thread holds the GVL of its ractor, waits for it or does neither. ddtop reads this from the
// fields of Ruby's scheduler.
type GVLState uint8

const (
	// GVLGone means that the thread has ended, or that its native thread now runs another Ruby thread.
	GVLGone GVLState = iota
	// GVLReleased means that the thread neither holds the GVL nor wants it.
	GVLReleased
	// GVLQueued means that the thread waits for the GVL in the queue.
	GVLQueued
	// GVLChosen means that Ruby has chosen the thread to hold the GVL next, but the thread does not run yet.
	GVLChosen
	// GVLHeld means that the thread holds the GVL.
	GVLHeld
)

// String returns the word that messages use for the state: gone, released, queued, chosen, held.
func (g GVLState) String() string {
	return wordOf(g, "gone", "gone", "released", "queued", "chosen", "held")
}

// A Change is the moment at which a thread goes from one GVLState to another. ddtop recorded it at this moment, and did
// not find it later by comparing two samples.
type Change struct {
	// AtNS is the time of the change, CLOCK_MONOTONIC in ns. For a live process, AtNS and NoCPUNS are rounded to 100 ns
	// before they are shown. Rounding keeps a recording small, and it makes the live screen show the same values as the
	// recording.
	AtNS int64
	// Thread is 0 if no sample has the thread, because it lived for a very short time.
	Thread ThreadID
	// TID is the native thread's ID in ddtop's own PID namespace.
	TID   int32
	State GVLState
	// NoCPUNS is how long the native thread was runnable but had no CPU, in ns, during the state that ends with this
	// change.
	//
	// There is one exception: a wait for the GVL has two states, first GVLQueued and then GVLChosen. The time without a
	// CPU is known only at the end of the wait. So the change from GVLQueued to GVLChosen has NoCPUNS 0. The change
	// that ends GVLChosen has the time of both states.
	NoCPUNS int64
	// Stack is the thread's stack when it gets the GVL after a wait. It is the same as when the thread gave the GVL
	// away, because only the holder of the GVL runs Ruby code. If the thread already had the GVL, Stack is what it runs
	// at AtNS. Resumes is Stack without its innermost C functions: the Ruby code that continues. Zero means that the
	// stack is not known. Only changes to GVLHeld can have a Stack and Resumes, and some of these have none.
	Stack, Resumes StackID
	// Doubtful is true if changes of this thread may be missing between its previous recorded Change and this Change.
	Doubtful bool
	// Doing is what the thread does from AtNS on, while it is in State. It is empty if the kernel did not report it. A
	// Change can also have only a new Doing, while the thread's State stays the same.
	Doing Doing
}

// DoingKind says what a thread does while it holds the GVL, or while it neither holds the GVL nor waits for it.
type DoingKind uint8

const (
	// DoingUnknown means that there was no report.
	DoingUnknown DoingKind = iota
	// DoingRuns means that the thread is on a CPU, or could run but lost its CPU to another thread.
	DoingRuns
	// DoingCollects is like DoingRuns, but the thread holds the GVL and collects garbage.
	DoingCollects
	// DoingSleeps means that the thread waits in the kernel, for example in read(2).
	DoingSleeps
	// DoingWorks means that the thread has begun or finished work for a request. Its GVLState stays the same.
	DoingWorks
)

// Doing says what a thread does. The kernel reports this when the thread loses its CPU, or when the clock of its CPU
// ticks.
type Doing struct {
	Kind DoingKind
	// Syscall, FD and FDs describe the system call in which a thread sleeps, as the same fields of Kernel do. For
	// select, the descriptors are not known, so FD is -1 and FDs is 1.
	Syscall string
	FD, FDs int32
	// Status is the thread's state in Ruby's words. Region is true if the thread has given the GVL away to run a C
	// function, and takes the GVL back afterwards.
	Status Status
	Region bool
	// Left is true if the thread is back at the place where it waits for new work. This means that its earlier work has
	// ended.
	Left bool
	// Mutex is the address of the Ruby Mutex that the thread wants to lock. It is 0 if there is none.
	Mutex uint64
	// Work is the request for which the thread works from now on. It is zero if there is none. Unfound is true if the
	// thread has begun a request, but ddtop knows nothing more about the request. Only a Doing of kind DoingWorks has
	// these two fields. Its other fields are empty.
	Work    WorkID
	Unfound bool
}

// MaxChanges limits the length of Changes.List. If more changes happen between two samples of a live process, the later
// sample has no changes at all.
const MaxChanges = 1 << 16

// Changes lists all changes of the main ractor's GVL in a period of time.
type Changes struct {
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. List has all changes after FromNS up to and including ToNS. ToNS is
	// the sample's TimeNS. FromNS is usually the time of the previous sample. It is later if the first changes after
	// that sample are missing. Then the states of the threads at FromNS are known only if Fresh is set. Both times are
	// zero if no changes are known.
	FromNS, ToNS int64
	// Fresh is true if nothing is known about the time before FromNS. Then List begins with the state of each thread at
	// FromNS. If a recording is read in parts, the first sample of each part is Fresh, and its FromNS is equal to ToNS.
	Fresh bool
	// List is in order of time.
	List []Change
}

// Known reports whether the changes of this interval are known.
func (c *Changes) Known() bool { return c.ToNS != 0 }
