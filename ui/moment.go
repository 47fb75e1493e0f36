package ui

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// momentNS is how much of the history before a moment is looked through to tell what each thread did then: long
	// enough for every thread's stack to be read, short enough for a key press.
	momentNS = int64(300e6)
	// maxMomentAgeNS is how long before a moment its last sample may lie.
	maxMomentAgeNS = int64(2e9)
	// historyBytes bounds the memory of the history's samples.
	historyBytes = 128 << 20
)

// moment returns the last sample at or before a time, with its states; nil when the history does not reach there.
func (s *Store) moment(atNS int64) (*sampler.Sample, []gvl.ThreadState, error) {
	class := gvl.NewClassifier(s.process, s.dict)
	var last *sampler.Sample
	var states []gvl.ThreadState
	firstNS := int64(0)
	look := func(x *sampler.Sample) {
		if last == nil {
			last, firstNS = new(sampler.Sample), x.TimeNS
		}
		copySample(last, x)
		states = append(states[:0], class.Classify(x)...)
	}
	if err := s.history.Range(atNS-momentNS, atNS+1, look); err != nil {
		return nil, nil, fmt.Errorf("reading the history: %w", err)
	}
	if last == nil { // a slow clock has longer gaps
		x, err := s.history.At(atNS)
		if err != nil || x == nil || atNS-x.TimeNS > maxMomentAgeNS {
			return nil, nil, err
		}
		look(x)
	}
	s.Read(func(r *reading) {
		for i := range states {
			if states[i].SinceNS <= firstNS {
				states[i].SinceNS = since(r.Timeline, &states[i], firstNS)
			}
		}
	})
	return last, states, nil
}

// maxSinceNS is how far back since looks.
const maxSinceNS = int64(60e9)

// since looks in the timeline for how long before ns the thread had been in its state.
func since(tl *gvl.Timeline, t *gvl.ThreadState, ns int64) int64 {
	oldest, _ := tl.Range()
	from := max(oldest, ns-maxSinceNS)
	cols := int((ns - from) / tl.ColumnNS())
	if cols <= 0 {
		return ns
	}
	cells := tl.Row(t.Thread, ns-int64(cols)*tl.ColumnNS(), ns, cols)
	for i := len(cells) - 1; i >= 0; i-- {
		if in := cells[i].NS[t.State]; in == 0 || in < cells[i].Listed() {
			return ns - int64(len(cells)-1-i)*tl.ColumnNS() - in
		}
	}
	return from
}
