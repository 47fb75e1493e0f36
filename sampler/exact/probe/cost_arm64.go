package probe

// probed does nothing. The cost of a hit is measured with a probe on it.
func probed()

// addressOfProbed returns the address of probed in memory.
func addressOfProbed() uintptr

// ownPlace finds places for probes in code of this kind of machine. Only tests link the decoder of other kinds.
var ownPlace placer = placeARM
