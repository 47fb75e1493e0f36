// Package ui is the live screen: a Bubble Tea program over a Store that folds the samples of a Source. A view never
// reads the target.
//
// The Model only routes: it gives keys, clicks and messages to the views, loads the scene, and has the picture drawn.
// The views are packages below ui/page, registered in pages.go. What they are made of is in ui/widget, what they show
// in ui/scene and ui/store, how it looks in ui/style. The sampling goroutine never waits for a picture, and the
// terminal is given back however the program ends.
package ui
