//go:build !amd64

package probe

// probed does nothing: exact mode is for x86_64 as yet (machine.check).
func probed() {}

// addressOfProbed returns 0: there is nothing to measure.
func addressOfProbed() uintptr { return 0 }
