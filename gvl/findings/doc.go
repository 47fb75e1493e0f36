// Package findings says what is wrong with a process, by the rules of docs/reference/findings.md. The evidence of the last ten seconds comes from a stream;
// the rules are data with a function each, and their thresholds can be set.
package findings
