//go:build !verify

package findingstest

// everyRuby is for the long run (build tag verify).
const everyRuby = false
