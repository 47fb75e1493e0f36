package live

import "github.com/ddtop/ddtop/sampler/live/internal/pace"

const (
	// workEveryNS is the interval at which records are fetched to find threads that begin something, in ns.
	workEveryNS = 12_000_000
	// slowWorkEveryNS is workEveryNS while nothing runs or waits.
	slowWorkEveryNS = 50_000_000
	// stillEveryNS is the shortest interval between samples of an idle process in which no thread has had a CPU, in
	// ns. They show what threads other than Ruby's change. If records wake the clock, it takes them when the slow
	// counters are read (besideEvery), because waking up costs as much as a sample.
	stillEveryNS = 700_000_000
	// recordLateNS is how much later than its time a record may come, in ns.
	recordLateNS = 1_000_000
	// namesLateNS is how long copied stacks wait for the next tick to be named, in ns. Their records wait for a name
	// for stacknames.WithinNS. If many processes are read, ticks are seconds apart.
	namesLateNS = 100_000_000
	// maxBeginning bounds the threads that are read in one tick because they have begun something.
	maxBeginning = 64
)

// followAgain says when to follow a process again whose threads had switched too often.
type followAgain struct {
	of *switchRun // the last one that ended
	pace.Again
}
