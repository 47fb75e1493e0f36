package rivals

import (
	"testing"
	"time"
)

// rounds says how profilers are measured in turns: how often, how long each has to begin to sample before it is measured, and how long
// the process is left alone where there is none.
type rounds struct {
	count        int
	attach, rest time.Duration
}

// inRounds has a process do something beside each profiler and without, one after the other, so many times. Every other round goes the
// other way, so that what the machine does meanwhile hits all alike. What was done is by profiler, without the last.
func inRounds[T any](b *testing.B, r rounds, all []meter, pid int, work func() T) (done [][]T, own [][]ownCost) {
	b.Helper()
	done, own = make([][]T, len(all)+1), make([][]ownCost, len(all))
	for round := range r.count {
		for k := range done {
			i := k
			if round%2 == 1 {
				i = len(all) - k
			}
			if i == len(all) {
				time.Sleep(r.rest)
				done[i] = append(done[i], work())
				continue
			}
			s := all[i].start(b, pid, railsLimit)
			time.Sleep(r.attach)
			before, _ := cpuTime(s.cmd.Process.Pid)
			from := monotonic()
			done[i] = append(done[i], work())
			after, _ := cpuTime(s.cmd.Process.Pid)
			until := monotonic()
			share := 100 * float64(after-before) / float64(until-from)
			own[i] = append(own[i], ownCost{share: share, said: s.end(b, from, until), from: from, until: until})
		}
	}
	return done, own
}
