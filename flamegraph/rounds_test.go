package flamegraph

// rounds returns how often a test with one goroutine repeats itself. Without the race detector, this is n times.
func rounds(n int) int { return max(n/raceDivisor, 1) }
