//go:build !race

package recording

const raceDivisor = 1
