//go:build verify

package ruby

import "time"

const (
	chainSamples   = 100_000
	chainTime      = time.Minute
	chainsUnderJIT = true
	valueSamples   = 200_000
)
