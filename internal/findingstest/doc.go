// Package findingstest holds the tests of the findings (docs/reference/findings.md) against real processes: programs in each of
// which one thing is wrong, and programs in which nothing is.
package findingstest
