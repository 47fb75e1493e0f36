// Package findingstest holds the tests of the findings (docs/reference/findings.md) against real processes. In some
// programs one thing is wrong, and in others nothing is.
package findingstest
