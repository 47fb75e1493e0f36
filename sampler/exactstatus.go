package sampler

// ExactStatus says how exact mode stands: Sample.Changes are filled while it is on.
type ExactStatus struct {
	On bool
	// SinceNS is from when on changes have been followed, CLOCK_MONOTONIC in ns. It is zero if that never was so.
	SinceNS int64
	// Ended is the reason, a clause, why it ended early. It is "" if it did not. Wrong is set if nothing that was seen
	// can be trusted.
	Ended string
	Wrong bool
	// WithTarget: it ended because the target did.
	WithTarget bool
	// CostShare is what it cost the target over the last second, by estimate, as a share of what the target itself took
	// of a CPU.
	CostShare float64
	// Hits is how often a thread passed a probe since SinceNS, Changes the number of changes of the GVL, and Lost the
	// number of records without room.
	Hits, Changes, Lost uint64
}
