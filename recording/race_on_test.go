//go:build race

package recording

// raceDivisor divides the rounds of tests with one goroutine. The race detector finds nothing in these tests, and makes
// them ten times slower. They run in full without it.
const raceDivisor = 10
