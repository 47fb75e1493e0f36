//go:build !linux

package program

// waitReadable returns at once: there are no pidfds.
func waitReadable(uintptr) {}
