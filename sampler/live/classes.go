package live

import "github.com/ddtop/ddtop/sampler"

// classesNS is the interval between two counts of new objects by class, in ns (docs/internals/gc.md#which-classes).
const classesNS = 50_000_000

// countClasses adds the allocations by class to a sample that was just read.
func (s *sampling) countClasses(sample *sampler.Sample) {
	if sample.TimeNS-s.lastClasses >= classesNS {
		s.lastClasses = sample.TimeNS
		s.ticking.Lock()
		s.classesNow = s.reader.CountClasses(sample)
		s.ticking.Unlock()
	}
	sample.Classes = s.classesNow
}
