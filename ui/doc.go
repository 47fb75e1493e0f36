// Package ui is the live screen: a Bubble Tea program that shows the data of a Store. The Store folds the samples of a
// Source. A view never reads the target.
//
// The Model contains no view. It passes keys, clicks and messages to the views, loads the scene, and has the picture
// drawn. The views are packages below ui/page, registered in pages.go. ui/widget has the parts that views share.
// ui/scene and ui/store have the data that views show, and ui/style the appearance. The sampling goroutine never waits
// for a picture. The terminal is restored however the program ends.
package ui
