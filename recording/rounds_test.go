package recording

// rounds returns how many rounds a test with one goroutine runs. This is n, or fewer rounds if the race detector makes
// the test slow.
func rounds(n int) int { return max(n/raceDivisor, 1) }
