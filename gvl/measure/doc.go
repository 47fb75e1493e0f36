// Package measure combines a stream of intervals with its consumers. A Measure computes totals of a process, a Fold
// collects data for a screen, and a Watch checks conditions.
package measure
