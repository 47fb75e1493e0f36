package probe

// probed does nothing. ddtop puts a probe on it and calls it to measure the cost of a hit.
func probed()

// addressOfProbed returns the address of probed in memory.
func addressOfProbed() uintptr

// ownPlace finds places for probes in code for the machine on which ddtop runs. The build for each kind of machine sets
// it to the function for this kind. So ddtop links only the instruction decoder of its own machine. Tests link the
// others, too.
var ownPlace placer = place
