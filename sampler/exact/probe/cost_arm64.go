package probe

// probed does nothing. It is here to have a probe: what a hit costs is measured on it.
func probed()

// addressOfProbed is where probed is in memory.
func addressOfProbed() uintptr
