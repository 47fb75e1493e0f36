package store

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// momentNS is how much of the history before a moment is looked through to tell what each thread did then: long
	// enough for every thread's stack to be read, short enough for a key press.
	momentNS = int64(300e6)
	// nearNS is how long before a moment its last sample is as a rule, and by far.
	nearNS = int64(10e6)
	// maxMomentAgeNS is how long before a moment its last sample may lie.
	maxMomentAgeNS = int64(2e9)
	// maxSinceNS is how long before a moment the beginning of a thread's state is looked for.
	maxSinceNS = int64(60e9)
	// historyBytes bounds the memory of the history's samples for ten minutes; for an hour it is twice as much.
	historyBytes = 64 << 20
)

// Moment returns the last sample at or before a time, with its states; nil when the history does not reach there.
func (s *Store) Moment(atNS int64) (*sampler.Sample, []gvl.ThreadState, error) {
	class := gvl.NewClassifier(s.target, s.Dict)
	var last *sampler.Sample
	var states []gvl.ThreadState // the classifier's, of the sample it was fed last
	firstNS, lastNS := int64(0), int64(0)
	look := func(x *sampler.Sample) {
		if states = class.Classify(x); firstNS == 0 {
			firstNS = x.TimeNS
		}
		if lastNS = x.TimeNS; lastNS < atNS-nearNS {
			return // a copy of each would cost as much as all else
		}
		if last == nil {
			last = new(sampler.Sample)
		}
		last.CopyFrom(x)
	}
	if err := s.History.Range(atNS-momentNS, atNS+1, look); err != nil {
		return nil, nil, fmt.Errorf("reading the history: %w", err)
	}
	if last == nil { // a slow clock has longer gaps
		x, err := s.History.At(atNS)
		if err != nil || x == nil || atNS-x.TimeNS > maxMomentAgeNS {
			return nil, nil, err
		}
		if x.TimeNS != lastNS {
			look(x)
		}
		last = x
	}
	s.Read(func(r *Reading) {
		defer r.Waits.Events.begunBefore(states, atNS)
		for i := range states {
			if states[i].SinceNS <= firstNS {
				states[i].SinceNS = r.Timeline.Since(states[i].Thread, states[i].State, firstNS, firstNS-maxSinceNS)
			}
		}
	})
	return last, states, nil
}
