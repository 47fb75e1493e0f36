//go:build verify

package findingstest

// everyRuby is true with the build tag verify: the tests use every Ruby that is installed for tests.
const everyRuby = true
