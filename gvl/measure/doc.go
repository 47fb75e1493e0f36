// Package measure puts a stream and its consumers together: a Measure for one account of a process, a Fold for a screen, and a Watch that looks
// whether a condition holds.
package measure
