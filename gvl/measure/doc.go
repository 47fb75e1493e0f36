// Package measure bundles a stream and its consumers: a Measure for one account of a process, a Fold for a screen, and
// a Watch for conditions.
package measure
