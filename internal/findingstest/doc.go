// Package findingstest tests the findings (docs/reference/findings.md) with real processes. Some of the test programs
// have one fault, which ddtop must find. Others have no fault, and must raise no finding.
package findingstest
