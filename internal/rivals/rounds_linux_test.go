package rivals

import (
	"testing"
	"time"
)

// rounds describes how profilers are measured in turns. count is the number of rounds. attach is how long to wait for a
// profiler to begin, before the measurement. rest is the pause before a measurement without a profiler.
type rounds struct {
	count        int
	attach, rest time.Duration
}

// inRounds makes a process do the same work several times: with each profiler in turn, and without a profiler. Every
// second round has the reverse order, so that changes of the machine affect all measurements in the same way. done has
// a list of results for each profiler, and a last list for the work without a profiler.
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

// latest limits how long a profiler may take to begin. If it takes longer, the machine is too busy, and the benchmark
// fails.
const latest = 20 * time.Second

// beside makes a process do work while a profiler measures it. If the profiler begins only after the work has begun,
// beside drops the result and repeats the work. From then on, all profilers get twice the time to begin. This time is
// not known before, because it depends on the machine, and a profiler reports its begin only at its end.
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
