package sampler

// ExactStatus is the state of exact mode. Sample.Changes are filled while it is on.
type ExactStatus struct {
	On bool
	// SinceNS is from when on changes have been followed, CLOCK_MONOTONIC in ns. It is zero if that never was so.
	SinceNS int64
	// Ended says in a clause why exact mode ended early. It is empty if it did not. Wrong is true if no result can be
	// trusted.
	Ended string
	Wrong bool
	// WithTarget: it ended because the target did.
	WithTarget bool
	// CostShare is its estimated cost to the target over the last second, as a share of the target's own CPU time.
	CostShare float64
	// Hits is how often a thread passed a probe since SinceNS. Changes is the number of changes of the GVL. Lost is
	// the number of records that were dropped because a buffer was full.
	Hits, Changes, Lost uint64
}
