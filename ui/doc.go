// Package ui is ddtop's live screen, a Bubble Tea program. The Store adds up the samples of a Source, and the screen
// shows these data. The code of a view never reads the target.
//
// The Model contains no view. It passes keys, clicks and messages to the views, loads the scene (the data that a view
// shows), and starts the drawing. The views are packages below ui/page, registered in pages.go. ui/widget has the parts
// that views share. ui/scene and ui/store have the data that views show, and ui/style the appearance. The sampling
// goroutine never waits for a picture. The terminal is restored however the program ends.
package ui
