//go:build !linux

package ui

// dropUnread does nothing on systems other than Linux, because ddtop reads processes only on Linux.
func dropUnread(uintptr) error { return nil }
