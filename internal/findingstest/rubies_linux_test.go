//go:build !verify

package findingstest

// everyRuby is false without the build tag verify: the tests use the oldest and the newest Ruby only.
const everyRuby = false
