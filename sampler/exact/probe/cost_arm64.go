package probe

// probed does nothing. ddtop puts a probe on it and calls it to measure the cost of a hit.
func probed()

// addressOfProbed returns the address of probed in memory.
func addressOfProbed() uintptr

// ownPlace finds places for probes in code for the machine on which ddtop runs. It is a variable of each build, so
// that only tests link the decoders of other machines.
var ownPlace placer = placeARM
