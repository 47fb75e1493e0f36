// Package page has the interfaces that views implement. Each view is a package in a folder below this one, and has a
// line in the list of views in package ui. Views do not import each other. The code that they share is in the packages
// widget and scene.
package page
