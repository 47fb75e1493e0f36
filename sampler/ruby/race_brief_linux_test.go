//go:build !verify

package ruby

import "time"

const (
	// chainSamples is how many samples TestNoImpossibleChains takes of each program. The test counts only samples
	// during which the program changes its stack. If this takes longer than chainTime, a fortieth of chainSamples is
	// enough. With a free CPU, the samples of each program take half a second.
	chainSamples = 8000
	chainTime    = 500 * time.Millisecond
	// chainsUnderJIT is true if the test also runs the programs under the JITs.
	chainsUnderJIT = false
	// valueSamples is how many samples TestNoMixedValues takes of each program.
	valueSamples = 2000
)
