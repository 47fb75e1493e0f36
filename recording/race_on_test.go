//go:build race

package recording

// raceDivisor divides the number of rounds of tests that have only one goroutine. In these tests the race detector
// finds nothing, and makes them ten times slower. Without the race detector, they run all rounds.
const raceDivisor = 10
