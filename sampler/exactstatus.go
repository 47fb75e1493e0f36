package sampler

// ExactStatus is the state of exact mode. In this mode the kernel reports to ddtop each moment at which a thread gets,
// loses or wants the GVL. Sample.Changes is filled while exact mode is on.
type ExactStatus struct {
	On bool
	// SinceNS is when exact mode began to follow changes of the GVL, CLOCK_MONOTONIC in ns. It is zero if it never
	// began.
	SinceNS int64
	// Ended is a clause that says why exact mode ended before the user turned it off. It is empty if this did not
	// happen. Wrong is true if none of the results of exact mode can be trusted.
	Ended string
	Wrong bool
	// WithTarget is true if exact mode ended because the target ended.
	WithTarget bool
	// CostShare is an estimate of what exact mode cost the target in the last second. It is a share of the target's own
	// CPU time.
	CostShare float64
	// Hits is how often a thread passed one of ddtop's probes since SinceNS. Changes is the number of changes of the
	// GVL. Lost is the number of records that were dropped because a buffer was full.
	Hits, Changes, Lost uint64
}
