package live

import (
	"errors"

	"github.com/ddtop/ddtop/sampler/exact"
)

// DefaultExactCost is the share of its own CPU time that the probes of exact mode may cost a process.
const DefaultExactCost = 0.03

// ErrExact means that the GVL of the process cannot be followed exactly.
var ErrExact = errors.New("exact mode can't follow this process")

// ExactOptions are the options of Source.Exact.
type ExactOptions struct {
	// MaxCost is the largest share of the process's CPU time that the probes may cost. Zero means DefaultExactCost.
	// One means no limit.
	MaxCost float64
	// LibC puts the probes into the C library, even if probes in libruby's functions would be enough. It is for tests.
	LibC bool
	// Untried allows a kind of processor on which exact mode has not run yet (docs/reference/exact.md#on-arm64).
	Untried bool
}

// ExactReport is the result of a run of exact mode.
type ExactReport struct {
	// FromNS and ToNS are when following the GVL began and ended, CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
	// Hits is how often a thread hit a probe. Lost is how many records were dropped because the buffer was full.
	Hits, Lost uint64
	// CostNS is the estimated time for which probes delayed threads, in ns. CPUNS is the process's CPU time, which
	// includes CostNS. HitNS is the cost of one hit, in ns.
	CostNS, CPUNS, HitNS int64
	Checks               exact.Checks
	// Ended says in a clause why exact mode ended by itself. It is empty if it did not. If Wrong is true, its results
	// cannot be trusted.
	Ended string
	Wrong bool
}
