package sampler

// ExactStatus is the state of exact mode, in which the kernel reports each change of the GVL to ddtop. Sample.Changes
// is filled while this mode is on.
type ExactStatus struct {
	On bool
	// SinceNS is when ddtop began to follow changes, CLOCK_MONOTONIC in ns. It is zero if it never began.
	SinceNS int64
	// Ended is a clause that says why exact mode ended before the user turned it off. It is empty if it did not. Wrong
	// is true if none of its results can be trusted.
	Ended string
	Wrong bool
	// WithTarget is true if exact mode ended because the target ended.
	WithTarget bool
	// CostShare is the estimated cost of exact mode in the last second, as a share of the target's own CPU time.
	CostShare float64
	// Hits is how often a thread passed a probe since SinceNS. Changes is the number of changes of the GVL. Lost is
	// the number of records that were dropped because a buffer was full.
	Hits, Changes, Lost uint64
}
