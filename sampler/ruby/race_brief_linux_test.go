//go:build !verify

package ruby

import "time"

const (
	// chainSamples is how many samples of each program of TestNoImpossibleChains have to race with the program. After
	// chainTime, a fortieth of them is enough: half a second for each program if a CPU is free.
	chainSamples = 8000
	chainTime    = 500 * time.Millisecond
	// chainsUnderJIT reports whether the programs run under the JITs, too.
	chainsUnderJIT = false
	// valueSamples is how many samples TestNoMixedValues takes of each program.
	valueSamples = 2000
)
