//go:build verify

package findingstest

// everyRuby is true with the build tag verify: the long run raises the findings on every Ruby at hand.
const everyRuby = true
