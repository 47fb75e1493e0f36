//go:build verify

package findingstest

// everyRuby: the long run raises the findings on every Ruby at hand.
const everyRuby = true
