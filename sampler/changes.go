package sampler

// GVLState is what a thread has to do with the GVL of its ractor, by the scheduler's own fields.
type GVLState uint8

const (
	// GVLGone: the thread has ended, or its native thread serves another one.
	GVLGone GVLState = iota
	// GVLReleased: it neither holds the GVL nor wants it.
	GVLReleased
	// GVLQueued: it waits for the GVL in the queue.
	GVLQueued
	// GVLChosen: it is the next to hold the GVL, and does not run yet.
	GVLChosen
	// GVLHeld: it holds the GVL.
	GVLHeld
)

// String is the word for messages: gone, released, queued, chosen, held.
func (g GVLState) String() string {
	switch g {
	case GVLReleased:
		return "released"
	case GVLQueued:
		return "queued"
	case GVLChosen:
		return "chosen"
	case GVLHeld:
		return "held"
	}
	return "gone"
}

// Change is a thread that goes from one GVLState into another, seen where it happened (exact mode) and not by looking again and again.
type Change struct {
	// AtNS is CLOCK_MONOTONIC in ns; of a live process, as NoCPUNS, in whole 100 ns, so that a recording is small and as exact.
	AtNS int64
	// Thread is 0 for one that no sample has listed: it lived too short a time.
	Thread ThreadID
	// TID is the native thread's id in ddtop's own PID namespace.
	TID   int32
	State GVLState
	// NoCPUNS is for how long the native thread was runnable and had no CPU, in the state that ends now, in ns. Of a wait it is known
	// when that ends alone: what ends GVLChosen has that of being queued, too, and what begins GVLChosen has 0.
	NoCPUNS int64
	// Stack is the thread's when it has the GVL again after it waited for it, which it has had since it gave the GVL away: only who holds it
	// runs Ruby. Of a thread that has had the GVL already it is what it runs at AtNS. Resumes is Stack without the C functions at its inner end: the code that goes on. 0: not known; they are known of
	// GVLHeld alone, and of some waits.
	Stack, Resumes StackID
	// Doubtful: since the thread's change before, others may have been missed.
	Doubtful bool
	// Doing is what the thread does in State from AtNS on, if the kernel noted that. A Change may tell of nothing else: the thread is in State
	// already then.
	Doing Doing
}

// DoingKind says how a thread that holds the GVL, or has released it, spends its time.
type DoingKind uint8

const (
	// DoingUnknown: nothing was noted.
	DoingUnknown DoingKind = iota
	// DoingRuns: the thread is on a CPU, or lost it to another thread.
	DoingRuns
	// DoingCollects: the same of the holder of the GVL, within the garbage collector.
	DoingCollects
	// DoingSleeps: the thread waits in the kernel.
	DoingSleeps
)

// Doing is what was noted of a thread in the kernel, when the thread lost its CPU or at a tick of the CPU's clock.
type Doing struct {
	Kind DoingKind
	// Syscall, FD and FDs are as in Kernel, of a thread that sleeps. Which descriptors a select waits for is not known: FD is -1 then, and FDs 1.
	Syscall string
	FD, FDs int32
	// Status is Ruby's own word on the thread. Region: it is in code that gave the GVL away and will take it back.
	Status Status
	Region bool
	// Left: the thread has come back to where it waits for work. What it worked for is over.
	Left bool
	// Mutex is the address of the Mutex that the thread wants to lock. It is 0 if there is none.
	Mutex uint64
}

// MaxChanges bounds Changes.List. A live process that changes more often between two samples has no Changes for that time.
const MaxChanges = 1 << 16

// Changes are all changes of the main ractor's GVL in a stretch of time.
type Changes struct {
	// FromNS and ToNS are CLOCK_MONOTONIC in ns: all that changed after FromNS, and not after ToNS, is in List. ToNS is the sample's
	// TimeNS, FromNS that of the sample before, or later where it was not known before: what changed between, and what states the
	// threads have at FromNS, is not known then, unless Fresh. 0 and 0: none are known, or a recording of before they were kept.
	FromNS, ToNS int64
	// Fresh: what was before FromNS is not known. The list begins with the state of each thread at FromNS. A part of a recording
	// begins so with its first sample, and FromNS == ToNS.
	Fresh bool
	// List is in order of time.
	List []Change
}

// Known reports whether the changes of the time are known.
func (c *Changes) Known() bool { return c.ToNS != 0 }
