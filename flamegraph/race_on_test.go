//go:build race

package flamegraph

// raceDivisor divides the rounds of tests of one goroutine. The race detector has nothing to find in them and makes
// them ten times slower. They run in full without it.
const raceDivisor = 10
