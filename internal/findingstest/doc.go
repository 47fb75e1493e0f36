// Package findingstest holds the tests of the findings (docs/reference/findings.md) against real processes. Some of
// the programs have one fault, which must be found. Others have no fault, so no finding may appear.
package findingstest
