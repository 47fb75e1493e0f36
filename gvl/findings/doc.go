// Package findings reports what is wrong with a process, by the rules of docs/reference/findings.md. A stream delivers
// the evidence of the last ten seconds. The rules are a table with a function each, and users can set their
// thresholds.
package findings
