//go:build !amd64 && !arm64

package probe

// probed does nothing. Exact mode does not support this kind of machine (machine.check).
func probed() {}

// addressOfProbed returns 0, because there is nothing to measure.
func addressOfProbed() uintptr { return 0 }

// ownPlace is nil, because exact mode does not support this kind of machine.
var ownPlace placer
