package recording

// rounds returns how often a test of one goroutine repeats itself, of n times without the race detector.
func rounds(n int) int { return max(n/raceDivisor, 1) }
