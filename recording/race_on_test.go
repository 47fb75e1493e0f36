//go:build race

package recording

// raceDivisor divides the number of rounds of tests that have only one goroutine. The race detector finds nothing in
// these tests, and makes them ten times slower. Without the race detector, they run all rounds.
const raceDivisor = 10
