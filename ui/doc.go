// Package ui is the live screen: a Bubble Tea program over a Store that folds the samples of a Source. A view never
// reads the target: it draws what the Store holds. The sampling goroutine never waits for a picture, and the terminal
// is given back however the program ends.
package ui
