// Package store folds the samples of a Source and holds what the views draw: threads, timeline, weights, waits,
// findings, and the history of samples. The sampling goroutine never waits for a picture.
package store
