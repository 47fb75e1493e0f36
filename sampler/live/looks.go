package live

import "github.com/ddtop/ddtop/sampler/live/internal/pace"

const (
	// workEveryNS is the interval at which records are fetched to find threads that begin a request or a job, in ns.
	workEveryNS = 12_000_000
	// slowWorkEveryNS replaces workEveryNS, in ns, while no thread runs or waits for the GVL.
	slowWorkEveryNS = 50_000_000
	// stillEveryNS is the shortest interval between two samples of a process in which no thread gets a CPU, in ns.
	// These samples show what threads do that Ruby does not know. If records wake the clock, the clock samples when the
	// slow counters are read (besideEvery), because waking up costs as much as a sample.
	stillEveryNS = 700_000_000
	// recordLateNS is how long after an event its record may arrive, in ns.
	recordLateNS = 1_000_000
	// If the next tick is more than namesLateNS (in ns) away, the clock names copied stacks before this tick. Records
	// wait for names only for stacknames.WithinNS, but with many processes ticks are seconds apart.
	namesLateNS = 100_000_000
	// maxBeginning limits how many threads one tick reads because they have begun work.
	maxBeginning = 64
)

// followAgain decides when to follow a process again after its threads had switched too often.
type followAgain struct {
	of *switchRun // the last run that ended
	pace.Again
}
