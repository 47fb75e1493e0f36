package probe

// probed does nothing. The cost of a hit is measured with a probe on it.
func probed()

// addressOfProbed returns the address of probed in memory.
func addressOfProbed() uintptr
