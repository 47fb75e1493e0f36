// Package findings says what is wrong with a process, by the rules of docs/reference/findings.md. A stream delivers the
// evidence of the last ten seconds. The rules are data with a function each, and their thresholds can be set.
package findings
