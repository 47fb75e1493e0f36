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
	// FineColumnNS is the length of a column of the fine timeline, in ns. This timeline has shorter columns than usual,
	// and is made from the history.
	FineColumnNS = int64(10 * time.Millisecond)
	// MaxFineNS limits the length of a fine timeline. It would take too long to make a longer one, because all samples
	// of its time are read again.
	MaxFineNS = int64(5 * time.Second)
	// fineLeadNS is how long before a time span the reading of the history begins, in ns. So ddtop already knows the
	// threads and the GVL's holder when the span begins. fineTrailNS is how long the reading continues after the span,
	// in ns. This is necessary because some states become known only with later samples. If samples are rare, the
	// reading continues for knownBy samples, but at most for maxTrailNS.
	fineLeadNS  = int64(time.Second)
	fineTrailNS = int64(60 * time.Millisecond)
	maxTrailNS  = int64(3 * time.Second)
	knownBy     = 2
	// maxFineColumns limits how many columns a fine timeline has, with the columns after the time span.
	maxFineColumns = 1 << 15
)

// FineRange says for which time span a fine timeline is wanted, and how long each of its columns is, in ns.
type FineRange struct{ FromNS, ToNS, ColumnNS int64 }

// Fine is a timeline with short columns, for a part of the history.
type Fine struct {
	FineRange
	Timeline *timeline.Timeline
	Err      error
}

// Fine makes a timeline with short columns. For this, it reads a part of the history again. The parameter of says for
// which time span, and how long a column is.
func (s *Store) Fine(of FineRange) Fine {
	f := Fine{FineRange: of}
	toNS := s.knownAt(min(of.ToNS, of.FromNS+MaxFineNS))
	stream := stream.New(s.target)
	// the columns of the time before the span are dropped
	f.Timeline = timeline.New(stream, of.ColumnNS, min(int((toNS-of.FromNS)/of.ColumnNS)+2, maxFineColumns))
	f.Err = s.readAgain(of.FromNS, toNS, stream)
	return f
}

// knownAt returns until what time the history must be read, so that all states up to toNS are known. This is later than
// toNS, because some states become known only with later samples.
func (s *Store) knownAt(toNS int64) int64 {
	n, told := 0, toNS+fineTrailNS
	// An error is ignored here, because the next reading of the history fails with the same error and reports it.
	_ = s.History.Range(toNS+1, toNS+maxTrailNS, func(x *sampler.Sample) {
		if n++; n <= knownBy {
			told = max(told, x.TimeNS)
		}
	})
	return told
}

// readAgain reads the samples of a time span from the history. It finds the states of the threads again, and feeds them
// to a stream.
func (s *Store) readAgain(fromNS, toNS int64, stream *stream.Stream) error {
	class := gvl.NewClassifier(s.target, s.Dict)
	return s.History.Range(fromNS-fineLeadNS, toNS+1, func(x *sampler.Sample) { stream.Feed(x, class.Classify(x)) })
}

const (
	// momentNS is how much history is read to find out what each thread did at a moment, in ns before this moment. It
	// is so long that every thread's stack was read at least once. But it is short enough that a key press can wait for
	// it.
	momentNS = int64(300e6)
	// nearNS decides which samples Moment copies. Moment returns a copy of the last sample before the moment. To copy
	// every sample that it reads would double the cost. So it copies only the samples in the last nearNS. nearNS is
	// longer than the usual time from the last sample to the moment.
	nearNS = int64(10e6)
	// maxMomentAgeNS limits how long before a moment its last sample may be, in ns. If the sample is older, Moment
	// returns nothing.
	maxMomentAgeNS = int64(2e9)
	// maxSinceNS limits how far back ddtop searches for the beginning of a thread's state, in ns before the moment.
	maxSinceNS = int64(60e9)
	// historyBytes limits the memory for the samples of a history of ten minutes. A longer history may take more, but
	// at most twice as much.
	historyBytes = 64 << 20
)

// Moment returns the last sample at or before a time, and the states of its threads. It returns nil if the history has
// no such sample near this time.
func (s *Store) Moment(atNS int64) (*sampler.Sample, []gvl.ThreadState, error) {
	class := gvl.NewClassifier(s.target, s.Dict)
	var last *sampler.Sample
	var states []gvl.ThreadState // the states that the classifier found for the last sample that it got
	firstNS, lastNS := int64(0), int64(0)
	look := func(x *sampler.Sample) {
		if states = class.Classify(x); firstNS == 0 {
			firstNS = x.TimeNS
		}
		if lastNS = x.TimeNS; lastNS < atNS-nearNS {
			return // do not copy this sample: copying every sample would double the cost
		}
		if last == nil {
			last = new(sampler.Sample)
		}
		last.CopyFrom(x)
	}
	if err := s.History.Range(atNS-momentNS, atNS+1, look); err != nil {
		return nil, nil, fmt.Errorf("reading the history: %w", err)
	}
	if last == nil { // if samples are rare, the last sample may be further back than momentNS
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

// maxChainNS limits how much of a wait is read again from the history. Of a longer wait, only the last part is read.
const maxChainNS = int64(10e9)

// WaitChain says which threads held the GVL while another thread waited for it.
type WaitChain struct {
	Of  WaitKey
	Sum stream.ChainSum
	// LenNS is how much of the wait was read, in ns. Cut is true if only the last part was read, because the wait is
	// too long.
	LenNS int64
	Cut   bool
	Err   error
}

// Chain reads the history around a wait again, to find out which threads held the GVL during the wait.
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
