package live

import "github.com/ddtop/ddtop/sampler/live/internal/pace"

const (
	// workEveryNS is how often records are fetched, in ns, to find threads that begin a request or a job.
	workEveryNS = 12_000_000
	// slowWorkEveryNS is used in place of workEveryNS while no thread runs or waits for the GVL, in ns.
	slowWorkEveryNS = 50_000_000
	// stillEveryNS is the shortest interval between two samples, in ns, if no thread gets a CPU. These samples show
	// what threads do that Ruby does not know. If records wake the clock, it samples when the slow counters are read
	// (besideEvery), because waking up costs as much as a sample.
	stillEveryNS = 700_000_000
	// recordLateNS is the longest time from an event until its record arrives, in ns.
	recordLateNS = 1_000_000
	// If the next tick is more than namesLateNS (in ns) away, the clock names copied stacks before it. With many
	// processes ticks are seconds apart, but records wait for names only for stacknames.WithinNS.
	namesLateNS = 100_000_000
	// maxBeginning limits how many of the threads that have begun work one tick reads.
	maxBeginning = 64
)

// followAgain decides when to follow a process again. ddtop stopped because its threads switched too often.
type followAgain struct {
	of *switchRun // the last run that ended
	pace.Again
}
