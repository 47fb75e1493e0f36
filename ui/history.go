package ui

import (
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// fineColumnNS is the length of a column of a timeline that is made from the history.
	fineColumnNS = int64(10 * time.Millisecond)
	// maxFineNS bounds the stretch of time that one is made of: its samples are all read again.
	maxFineNS = int64(5 * time.Second)
	// fineLeadNS is how long before it the reading begins, so that the classifier knows the threads.
	fineLeadNS = int64(200 * time.Millisecond)
)

// fine is a timeline in short columns, of a stretch of the history.
type fine struct {
	fromNS, toNS int64
	timeline     *gvl.Timeline
	err          error
}

// fine reads a stretch of the history once more into a timeline with columns of fineColumnNS.
func (s *Store) fine(fromNS, toNS int64) fine {
	f := fine{fromNS: fromNS, toNS: toNS}
	toNS = min(toNS, fromNS+maxFineNS)
	columns := int((toNS-fromNS+fineLeadNS)/fineColumnNS) + 2
	stream := gvl.NewStream(s.process)
	f.timeline = gvl.NewTimeline(stream, fineColumnNS, columns)
	class := gvl.NewClassifier(s.process, s.dict)
	f.err = s.history.Range(fromNS-fineLeadNS, toNS+1, func(x *sampler.Sample) { stream.Feed(x, class.Classify(x)) })
	return f
}
