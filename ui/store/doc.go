// Package store makes the data that the views draw from the samples of a Source: threads, timeline, weights, waits,
// findings, and the history of samples. The sampling goroutine never waits for a picture.
package store
