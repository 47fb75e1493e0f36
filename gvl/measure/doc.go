// Package measure combines a stream of intervals with its consumers: a Measure for totals of a process, a Fold for a
// screen, and a Watch for conditions.
package measure
