// Package page says what a view is. Each view is a package below it, in a folder of its own, and a line in the list of
// package ui. Views do not import each other: what two of them share is in package widget or scene.
package page
