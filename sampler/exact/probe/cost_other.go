//go:build !amd64 && !arm64

package probe

// probed does nothing: exact mode is not for this kind of machine (machine.check).
func probed() {}

// addressOfProbed returns 0: there is nothing to measure.
func addressOfProbed() uintptr { return 0 }
