package live

import (
	"errors"

	"github.com/ddtop/ddtop/sampler/exact"
)

// DefaultExactCost limits the cost of exact mode's probes to this share of the process's own CPU time.
const DefaultExactCost = 0.03

// ErrExact means that ddtop cannot follow every change of this process's GVL.
var ErrExact = errors.New("exact mode can't follow this process")

// ExactOptions are the options of Source.Exact.
type ExactOptions struct {
	// MaxCost limits the cost of the probes, as a share of the process's CPU time. Zero means DefaultExactCost, and one
	// means no limit.
	MaxCost float64
	// LibC is for tests. It puts the probes into the C library, even if probes in libruby's functions are enough.
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
	// CostNS is the estimated time for which probes delayed the process's threads, in ns. CPUNS is the process's CPU
	// time, which includes CostNS. HitNS is the cost of one hit, in ns.
	CostNS, CPUNS, HitNS int64
	Checks               exact.Checks
	// Ended says in a clause why exact mode ended by itself. It is empty if exact mode did not end by itself. If Wrong
	// is true, the results are not reliable.
	Ended string
	Wrong bool
}
