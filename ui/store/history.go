package store

import (
	"fmt"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// FineColumnNS is the length of a column of the fine timeline, which is made from the history.
	FineColumnNS = int64(10 * time.Millisecond)
	// MaxFineNS limits the length of a fine timeline. A longer one would take too long to make, because all samples of
	// its time are read again.
	MaxFineNS = int64(5 * time.Second)
	// fineLeadNS is how long before a time span the reading of the history begins, in ns. When the span begins, the
	// classifier therefore knows the threads, and the stream knows the holder of the GVL. fineTrailNS is how long the
	// reading continues after the span, in ns, because some states become known only with later samples. If samples are
	// rare, the reading continues for knownBy samples, but at most for maxTrailNS.
	fineLeadNS  = int64(time.Second)
	fineTrailNS = int64(60 * time.Millisecond)
	maxTrailNS  = int64(3 * time.Second)
	knownBy     = 2
	// maxFineColumns limits the number of columns of a fine timeline, including the columns after the span.
	maxFineColumns = 1 << 15
)

// FineRange says which time span a fine timeline covers, and how long each of its columns is, in ns.
type FineRange struct{ FromNS, ToNS, ColumnNS int64 }

// Fine is a timeline of a span of the history, with short columns.
type Fine struct {
	FineRange
	Timeline *timeline.Timeline
	Err      error
}

// Fine reads a part of the history again, and makes a timeline of it. The parameter of says which time span, and how
// long a column is.
func (s *Store) Fine(of FineRange) Fine {
	f := Fine{FineRange: of}
	toNS := s.knownAt(min(of.ToNS, of.FromNS+MaxFineNS))
	stream := stream.New(s.target)
	f.Timeline = timeline.New(stream, of.ColumnNS, min(int((toNS-of.FromNS)/of.ColumnNS)+2, maxFineColumns)) // the columns of the lead are dropped
	f.Err = s.readAgain(of.FromNS, toNS, stream)
	return f
}

// knownAt returns the time up to which the history must be read. Some states up to toNS become known only with later
// samples, so this time is later than toNS.
func (s *Store) knownAt(toNS int64) int64 {
	n, told := 0, toNS+fineTrailNS
	// An error is not reported here. The next reading of the history has the same error and reports it.
	_ = s.History.Range(toNS+1, toNS+maxTrailNS, func(x *sampler.Sample) {
		if n++; n <= knownBy {
			told = max(told, x.TimeNS)
		}
	})
	return told
}

// readAgain reads the samples of a time span from the history, classifies them again, and feeds a stream with them.
func (s *Store) readAgain(fromNS, toNS int64, stream *stream.Stream) error {
	class := gvl.NewClassifier(s.target, s.Dict)
	return s.History.Range(fromNS-fineLeadNS, toNS+1, func(x *sampler.Sample) { stream.Feed(x, class.Classify(x)) })
}

const (
	// momentNS is how much history before a moment is read, in ns, to find out what each thread did at this moment.
	// During this time every thread's stack was read at least once. It is short enough to be read at a key press.
	momentNS = int64(300e6)
	// Moment returns a copy of the last sample before the moment. It copies only the samples in the last nearNS,
	// because copying every sample would double the cost. nearNS is longer than the usual time from the last sample to
	// the moment.
	nearNS = int64(10e6)
	// maxMomentAgeNS limits how old the last sample before a moment may be, in ns. If it is older, Moment returns
	// nothing.
	maxMomentAgeNS = int64(2e9)
	// maxSinceNS limits how far back the beginning of a thread's state is searched, in ns before the moment.
	maxSinceNS = int64(60e9)
	// historyBytes limits the memory for ten minutes of samples. A longer history gets more, but at most twice as much.
	historyBytes = 64 << 20
)

// Moment returns the last sample at or before a time, and the states of its threads. It returns nil if the history has
// no such sample.
func (s *Store) Moment(atNS int64) (*sampler.Sample, []gvl.ThreadState, error) {
	class := gvl.NewClassifier(s.target, s.Dict)
	var last *sampler.Sample
	var states []gvl.ThreadState // the classifier's states of the last sample that it got
	firstNS, lastNS := int64(0), int64(0)
	look := func(x *sampler.Sample) {
		if states = class.Classify(x); firstNS == 0 {
			firstNS = x.TimeNS
		}
		if lastNS = x.TimeNS; lastNS < atNS-nearNS {
			return // copying every sample would double the cost
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
		defer r.Waits.setExactBegins(states, atNS)
		for i := range states {
			if states[i].SinceNS <= firstNS {
				states[i].SinceNS = r.Timeline.Since(states[i].Thread, states[i].State, firstNS, firstNS-maxSinceNS)
			}
		}
	})
	return last, states, nil
}

// maxChainNS limits how much of a wait is read again from the history. If a wait is longer, only its last part is read.
const maxChainNS = int64(10e9)

// WaitChain says who held the GVL during a wait.
type WaitChain struct {
	Of  WaitKey
	Sum stream.ChainSum
	// LenNS is the length of the part of the wait that was read. Cut is true if this is only the last part, because the
	// wait is too long.
	LenNS int64
	Cut   bool
	Err   error
}

// Chain reads the history around a wait again, to find out who held the GVL.
func (s *Store) Chain(e *WaitEvent) WaitChain {
	c := WaitChain{Of: e.Key(), LenNS: e.LenNS}
	if c.Cut = e.LenNS > maxChainNS; c.Cut {
		c.LenNS = maxChainNS
	}
	w := gvl.Wait{Thread: e.Thread, FromNS: e.EndNS - c.LenNS, ToNS: e.EndNS, Exact: e.Exact, HandoverNS: e.HandNS, NoCPUNS: e.NoCPUNS}
	w.Before.Ractor = e.Ractor
	of := stream.New(s.target)
	chain := stream.NewChain(of, &w, s.Dict)
	c.Err = s.readAgain(w.FromNS, s.knownAt(w.ToNS), of)
	c.Sum = chain.Sum()
	return c
}
