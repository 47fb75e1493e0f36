//go:build !race

package flamegraph

const raceDivisor = 1
