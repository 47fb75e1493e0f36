//go:build !verify

package findingstest

// everyRuby is false without the build tag verify: the tests use only the oldest and the newest Ruby.
const everyRuby = false
