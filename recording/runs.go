package recording

import (
	"fmt"

	"github.com/ddtop/ddtop/sampler"
)

// Bits of the flags that are written with each stack of a running thread.
const (
	runHolds = 1 << iota
	runCollects
)

// checkRuns returns an error if a reader of the recording would refuse a list of running threads.
func checkRuns(list []sampler.NativeRun) error {
	if len(list) > sampler.MaxNativeRuns {
		return fmt.Errorf("%w: %d stacks of running threads in a sample", errLimit, len(list))
	}
	return nil
}

// carryRuns writes or reads a sample's stacks of running threads: first how many there are, and then all of their
// fields.
func carryRuns(w *wire, next []sampler.NativeRun) []sampler.NativeRun {
	list := w.sample.Runs[:0]
	atNS := w.sample.TimeNS
	for i := range w.length(len(next), sampler.MaxNativeRuns, 3) {
		x := at(next, i)
		flags := w.uint(bit(x.Holds, runHolds) | bit(x.Collects, runCollects))
		atNS += w.time(x.AtNS - atNS)
		y := sampler.NativeRun{AtNS: atNS, Thread: x.Thread, Holds: flags&runHolds != 0, Collects: flags&runCollects != 0}
		small(w, &y.Thread, x.Thread)
		w.name(x.Thread)
		if y.Stack = w.stacks.carry(w, x.Stack); w.reading {
			list = append(list, y)
		}
	}
	if w.err() != nil {
		return nil
	}
	return list
}
