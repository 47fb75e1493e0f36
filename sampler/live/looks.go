package live

import "github.com/ddtop/ddtop/sampler/live/internal/pace"

const (
	// workEveryNS is how often records are fetched, in ns, to find threads that begin a request or a job.
	workEveryNS = 12_000_000
	// slowWorkEveryNS is used in place of workEveryNS while no thread runs or waits for the GVL, in ns.
	slowWorkEveryNS = 50_000_000
	// stillEveryNS is the shortest interval between two samples, in ns, if no thread gets a CPU. These samples show
	// what threads do that Ruby does not know. If records wake the clock, the clock samples only when it wakes up in
	// any case, to read the slow counters (besideEvery). The reason is that waking up costs as much as a sample.
	stillEveryNS = 700_000_000
	// recordLateNS is the longest time from an event until its record arrives, in ns.
	recordLateNS = 1_000_000
	// namesLateNS decides whether the clock names copied stacks before the next tick: it does so if the tick is more
	// than namesLateNS (in ns) away. If ddtop samples many processes, ticks are seconds apart. But records wait for the
	// names of their stacks only for stacknames.WithinNS.
	namesLateNS = 100_000_000
	// maxBeginning is the largest number of threads that have just begun work and that one tick reads.
	maxBeginning = 64
)

// followAgain decides when ddtop follows a process's thread switches again after it has stopped because there were too
// many.
type followAgain struct {
	of *switchRun // the last run in which ddtop followed the thread switches; it has ended
	pace.Again
}
