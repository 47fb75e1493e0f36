//go:build !linux

package cli

import "runtime"

// systemName is the system's name.
func systemName() string { return runtime.GOOS }
