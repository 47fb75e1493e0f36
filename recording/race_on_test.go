//go:build race

package recording

// raceDivisor divides the rounds of tests of one goroutine, in which the race detector has nothing to find: it makes
// them ten times slower, and they run in full without it.
const raceDivisor = 10
