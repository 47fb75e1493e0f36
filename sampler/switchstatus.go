package sampler

// SwitchStatus says whether and how ddtop follows a process by thread switches. While On is set, Sample.Changes has
// the changes.
type SwitchStatus struct {
	On bool
	// Kind is "switches" if programs in the kernel make the records. It is "moved" if ddtop concludes them from events
	// of the kernel and from the target's memory.
	Kind string
	// Wanted is true if the user asked to follow thread switches. Auto is true if ddtop decides whether it does.
	Wanted, Auto bool
	// SinceNS is when following began, CLOCK_MONOTONIC in ns. It is zero if it never was on.
	SinceNS int64
	// Ended says why following ended by itself, or could not begin. It is empty otherwise.
	Ended string
	// Records is the number of recorded intervals on a CPU. Lost is the number of intervals that were dropped because
	// a buffer was full. Failed is the number of words of memory that could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the kernel worked to make the records, in ns.
	BusyNS int64
}
