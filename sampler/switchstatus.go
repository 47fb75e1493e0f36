package sampler

// SwitchStatus says how following a process by thread switches stands: Sample.Changes are filled while it is on.
type SwitchStatus struct {
	On bool
	// Kind is how: "switches" by programs in the kernel, "moved" by its events and looks at memory.
	Kind string
	// Wanted: it was asked for. Auto: it is left to ddtop.
	Wanted, Auto bool
	// SinceNS is from when on, CLOCK_MONOTONIC in ns. It is zero if it never was on.
	SinceNS int64
	// Ended says why it ended by itself, or could not begin. It is empty if neither is so.
	Ended string
	// Records is the number of recorded intervals on a CPU. Lost is the number of intervals that were dropped because
	// a buffer was full. Failed is the number of words of memory that could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the kernel took to make them, in ns.
	BusyNS int64
}
