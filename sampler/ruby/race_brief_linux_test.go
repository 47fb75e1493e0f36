//go:build !verify

package ruby

import "time"

const (
	// chainSamples is how many samples of each program of TestNoImpossibleChains must race with the program. If this
	// takes longer than chainTime, a fortieth is enough. If a CPU is free, this is half a second for each program.
	chainSamples = 8000
	chainTime    = 500 * time.Millisecond
	// chainsUnderJIT reports whether the programs run under the JITs, too.
	chainsUnderJIT = false
	// valueSamples is how many samples TestNoMixedValues takes of each program.
	valueSamples = 2000
)
