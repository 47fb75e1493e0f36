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
			result, cost := beside(b, all[i], pid, &r.attach, work)
			done[i], own[i] = append(done[i], result), append(own[i], cost)
		}
	}
	return done, own
}

// latest is what a profiler has to begin at most: what takes longer on a machine that other work keeps busy measures that work.
const latest = 20 * time.Second

// beside has a process do something beside a profiler. What was done before the profiler had begun is done again, and from then on all have
// twice the time to begin: how long that takes is the machine's, and can't be seen from outside.
func beside[T any](b *testing.B, m meter, pid int, attach *time.Duration, work func() T) (T, ownCost) {
	b.Helper()
	for {
		s := m.start(b, pid, railsLimit)
		time.Sleep(*attach)
		before, _ := cpuTime(s.cmd.Process.Pid)
		from := monotonic()
		done := work()
		after, _ := cpuTime(s.cmd.Process.Pid)
		until := monotonic()
		said, late := s.endOrLate(b, from, until)
		if late == 0 {
			share := 100 * float64(after-before) / float64(until-from)
			return done, ownCost{share: share, said: said, from: from, until: until}
		}
		*attach *= 2
		if *attach > latest {
			b.Fatalf("%s took its first sample %v after its cost was to be measured", m.name, late)
		}
		b.Logf("%s began %v too late: measured again, from now on with %v to begin", m.name, late, *attach)
	}
}
