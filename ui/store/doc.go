// Package store folds the samples of a Source into the data that the views draw: threads, timeline, weights, waits,
// findings, and the history of samples. The sampling goroutine never waits for a picture.
package store
