//go:build !linux

package rubytest

func pidfd() string { return "untested" }
