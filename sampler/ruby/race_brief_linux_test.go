//go:build !verify

package ruby

import "time"

const (
	// chainSamples is how many samples of each program of TestNoImpossibleChains have to race with it. chainTime is
	// after which time a fortieth of them is enough: half a second for each program if a CPU is free.
	chainSamples = 8000
	chainTime    = 500 * time.Millisecond
	// chainsUnderJIT: they run under the JITs too.
	chainsUnderJIT = false
	// valueSamples are the samples of TestNoMixedValues for each program.
	valueSamples = 2000
)
