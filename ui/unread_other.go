//go:build !linux

package ui

// dropUnread does nothing, because ddtop reads processes only on Linux.
func dropUnread(uintptr) error { return nil }
