// Package ui is the live screen: a Bubble Tea program over a Store that folds the samples of a Source. A view never
// reads the target.
//
// The Model contains no view. It gives keys, clicks and messages to the views, loads the scene, and has the picture
// drawn. The views are packages below ui/page, registered in pages.go. ui/widget has the parts that views share.
// ui/scene and ui/store have the data that they show, and ui/style the appearance. The sampling goroutine never waits
// for a picture. The terminal is restored however the program ends.
package ui
