package sampler

// SwitchStatus says whether and how ddtop follows a process by thread switches. A thread switch is a moment at which a
// thread gets or loses a CPU. From the switches, ddtop concludes when threads got the GVL, gave it up or began to wait
// for it. While On is set, Sample.Changes has these changes.
type SwitchStatus struct {
	On bool
	// Kind says how ddtop learns the changes of the GVL. It is "switches" if programs that ddtop loads into the kernel
	// record the changes. It is "moved" if ddtop concludes the changes from events of the kernel and from the target's
	// memory.
	Kind string
	// Wanted is true if the user asked to follow thread switches. Auto is true if ddtop itself decides whether to
	// follow them.
	Wanted, Auto bool
	// SinceNS is when ddtop began to follow thread switches, CLOCK_MONOTONIC in ns. It is zero if it never did.
	SinceNS int64
	// Ended says why ddtop could not begin, or why it stopped although the user did not ask for it. Otherwise it is
	// empty.
	Ended string
	// Records is the number of recorded intervals in which a thread was on a CPU. Lost is the number of intervals that
	// were dropped because a buffer was full. Failed is the number of words in the target's memory that could not be
	// read.
	Records, Lost, Failed uint64
	// BusyNS is how much time the kernel spent on making the records, in ns.
	BusyNS int64
}
