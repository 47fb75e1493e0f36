package store

import (
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// FineColumnNS is the length of a column of a timeline that is made from the history.
	FineColumnNS = int64(10 * time.Millisecond)
	// MaxFineNS bounds the stretch of time that one is made of: its samples are all read again.
	MaxFineNS = int64(5 * time.Second)
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

// FineRange is a stretch of time and the length of a column, in ns.
type FineRange struct{ FromNS, ToNS, ColumnNS int64 }

// Fine is a timeline in short columns, of a stretch of the history.
type Fine struct {
	FineRange
	Timeline *gvl.Timeline
	Err      error
}

// Fine reads a stretch of the history once more into a timeline with columns of the length.
func (s *Store) Fine(of FineRange) Fine {
	f := Fine{FineRange: of}
	toNS := s.toldAt(min(of.ToNS, of.FromNS+MaxFineNS))
	stream := gvl.NewStream(s.target)
	f.Timeline = gvl.NewTimeline(stream, of.ColumnNS, min(int((toNS-of.FromNS)/of.ColumnNS)+2, maxFineColumns)) // those of the lead are given up
	f.Err = s.readAgain(of.FromNS, toNS, stream)
	return f
}

// toldAt is up to when the history has to be read for what went on until toNS.
func (s *Store) toldAt(toNS int64) int64 {
	n, told := 0, toNS+fineTrailNS
	// What is wrong with the history is told when it is read.
	_ = s.History.Range(toNS+1, toNS+maxTrailNS, func(x *sampler.Sample) {
		if n++; n <= toldBy {
			told = max(told, x.TimeNS)
		}
	})
	return told
}

// readAgain feeds a stream with a stretch of the history.
func (s *Store) readAgain(fromNS, toNS int64, stream *gvl.Stream) error {
	class := gvl.NewClassifier(s.target, s.Dict)
	return s.History.Range(fromNS-fineLeadNS, toNS+1, func(x *sampler.Sample) { stream.Feed(x, class.Classify(x)) })
}
