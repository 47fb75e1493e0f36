// Package findings reports problems of a process, by the rules of docs/reference/findings.md. The rules judge the last
// ten seconds of a stream of samples. Each rule is a row of a table, with a function. Users can set its thresholds.
package findings
