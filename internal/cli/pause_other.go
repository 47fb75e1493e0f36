//go:build !linux

package cli

// waitReadable returns at once: there are no pidfds.
func waitReadable(uintptr) {}
