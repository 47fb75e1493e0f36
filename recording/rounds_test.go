package recording

// rounds returns how many times a test with one goroutine repeats itself: n times, or fewer with the race detector,
// which makes tests slow.
func rounds(n int) int { return max(n/raceDivisor, 1) }
