// Package page has the interfaces of views. Each view is a package in a folder below this one, and has a line in
// package ui's list of views. Views do not import each other. Packages widget and scene have what they share.
package page
