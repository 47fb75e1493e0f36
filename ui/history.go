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
	// fineLeadNS is how long before it the reading begins, so that the classifier knows the threads and the stream who held the GVL;
	// fineTrailNS for how long after it it goes on at least: what went on is told by the samples after it. Where these come more
	// rarely it goes on until toldBy of them have come, maxTrailNS at most.
	fineLeadNS  = int64(time.Second)
	fineTrailNS = int64(60 * time.Millisecond)
	maxTrailNS  = int64(3 * time.Second)
	toldBy      = 2
	// maxFineColumns bounds the columns, of what comes after it included.
	maxFineColumns = 1 << 15
)

// fineRange is a stretch of time and the length of a column, in ns.
type fineRange struct{ fromNS, toNS, columnNS int64 }

// fine is a timeline in short columns, of a stretch of the history.
type fine struct {
	fineRange
	timeline *gvl.Timeline
	err      error
}

// fine reads a stretch of the history once more into a timeline with columns of the length.
func (s *Store) fine(of fineRange) fine {
	f := fine{fineRange: of}
	toNS := s.toldAt(min(of.toNS, of.fromNS+maxFineNS))
	stream := gvl.NewStream(s.process)
	f.timeline = gvl.NewTimeline(stream, of.columnNS, min(int((toNS-of.fromNS)/of.columnNS)+2, maxFineColumns)) // those of the lead are given up
	f.err = s.readAgain(of.fromNS, toNS, stream)
	return f
}

// toldAt is up to when the history has to be read for what went on until toNS.
func (s *Store) toldAt(toNS int64) int64 {
	n, told := 0, toNS+fineTrailNS
	// What is wrong with the history is told when it is read.
	_ = s.history.Range(toNS+1, toNS+maxTrailNS, func(x *sampler.Sample) {
		if n++; n <= toldBy {
			told = max(told, x.TimeNS)
		}
	})
	return told
}

// readAgain feeds a stream with a stretch of the history.
func (s *Store) readAgain(fromNS, toNS int64, stream *gvl.Stream) error {
	class := gvl.NewClassifier(s.process, s.dict)
	return s.history.Range(fromNS-fineLeadNS, toNS+1, func(x *sampler.Sample) { stream.Feed(x, class.Classify(x)) })
}
