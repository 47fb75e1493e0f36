//go:build !verify

package ruby

import "time"

const (
	// chainSamples is how many samples TestNoImpossibleChains takes of each program while the program changes the
	// stack. If this takes longer than chainTime, a fortieth is enough. If a CPU is free, this is half a second for
	// each program.
	chainSamples = 8000
	chainTime    = 500 * time.Millisecond
	// chainsUnderJIT is true if the test also runs the programs under the JITs.
	chainsUnderJIT = false
	// valueSamples is how many samples TestNoMixedValues takes of each program.
	valueSamples = 2000
)
