package pace

// LooksPart is the part of the CPU budget for reading threads between two ticks. RoutesPart is the part for finding out
// which requests threads serve. creditSaveNS limits how much unused CPU time is saved as credit. The limit is what the
// share of a CPU allows in creditSaveNS (in ns).
const (
	LooksPart, RoutesPart = 0.4, 0.4
	creditSaveNS          = 200_000_000
)

// Credit bounds the CPU time of readings between two ticks. CPU time that is not used is saved as credit for later
// readings.
type Credit struct {
	// Part is the part of ddtop's CPU budget for readings between two ticks.
	Part float64
	ns   float64
	atNS int64
}

// Allows reports whether there is CPU time for a reading at now, CLOCK_MONOTONIC in ns. share is the share of a CPU
// that ddtop may use. Zero means no limit.
func (c *Credit) Allows(now int64, share float64) bool {
	c.ns = min(c.ns+float64(now-c.atNS)*share*c.Part, creditSaveNS*share)
	c.atNS = now
	return share == 0 || c.ns > 0
}

// Rest returns how long to wait until there is CPU time for a reading, in ns. share has the same meaning as in Allows.
func (c *Credit) Rest(share float64) int64 {
	if share == 0 || c.ns > 0 {
		return 0
	}
	return int64(-c.ns / (share * c.Part))
}

// Spend counts the CPU time of a reading, in ns.
func (c *Credit) Spend(ns int64) { c.ns -= float64(ns) }

// mostBells limits how many records of thread switches may wake the clock of an idle process in quick succession.
// bellsPerSecond limits how many may wake the clock per second on average. A request to the process makes about four
// records.
const mostBells, bellsPerSecond = 10, 20

// Bells bounds how often the records of thread switches wake the slow clock of an idle process.
type Bells struct {
	left float64
	atNS int64
}

// Take reports whether the next record of a thread switch may wake the clock.
func (b *Bells) Take(now int64) bool {
	b.left = min(b.left+float64(now-b.atNS)*bellsPerSecond/1e9, mostBells)
	b.atNS = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
