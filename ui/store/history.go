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
	// FineColumnNS is the length of a column of a timeline that is made from the history.
	FineColumnNS = int64(10 * time.Millisecond)
	// MaxFineNS limits the time span of a timeline that is made from the history, because all samples of the span are
	// read again.
	MaxFineNS = int64(5 * time.Second)
	// fineLeadNS is how long before a time span the reading begins, in ns. Then the classifier knows the threads, and
	// the stream knows the holder of the GVL. fineTrailNS is how long the reading continues after the span, in ns,
	// because later samples complete it. If samples are rare, it continues for knownBy samples, but at most for
	// maxTrailNS.
	fineLeadNS  = int64(time.Second)
	fineTrailNS = int64(60 * time.Millisecond)
	maxTrailNS  = int64(3 * time.Second)
	knownBy     = 2
	// maxFineColumns limits the number of columns, including the columns after the span.
	maxFineColumns = 1 << 15
)

// FineRange is a time span and the length of a column, in ns.
type FineRange struct{ FromNS, ToNS, ColumnNS int64 }

// Fine is a timeline of a span of the history, with short columns.
type Fine struct {
	FineRange
	Timeline *timeline.Timeline
	Err      error
}

// Fine reads a part of the history again, and makes a timeline of it. The parameter of has the time span and the
// length of a column.
func (s *Store) Fine(of FineRange) Fine {
	f := Fine{FineRange: of}
	toNS := s.knownAt(min(of.ToNS, of.FromNS+MaxFineNS))
	stream := stream.New(s.target)
	f.Timeline = timeline.New(stream, of.ColumnNS, min(int((toNS-of.FromNS)/of.ColumnNS)+2, maxFineColumns)) // the columns of the lead are dropped
	f.Err = s.readAgain(of.FromNS, toNS, stream)
	return f
}

// knownAt returns the time up to which the history must be read, so that everything up to toNS is known.
func (s *Store) knownAt(toNS int64) int64 {
	n, told := 0, toNS+fineTrailNS
	// An error is ignored here, because the reading that follows reports it.
	_ = s.History.Range(toNS+1, toNS+maxTrailNS, func(x *sampler.Sample) {
		if n++; n <= knownBy {
			told = max(told, x.TimeNS)
		}
	})
	return told
}

// readAgain feeds a stream with a span of the history.
func (s *Store) readAgain(fromNS, toNS int64, stream *stream.Stream) error {
	class := gvl.NewClassifier(s.target, s.Dict)
	return s.History.Range(fromNS-fineLeadNS, toNS+1, func(x *sampler.Sample) { stream.Feed(x, class.Classify(x)) })
}

const (
	// momentNS is the length of the history before a moment that is read to find out what each thread did then, in ns.
	// Within it every thread's stack was read. So short a history is read fast enough for a key press.
	momentNS = int64(300e6)
	// nearNS limits how long before a moment a sample may lie to be copied. It is more than the usual time from the
	// last sample to the moment. Copying every sample would double the cost.
	nearNS = int64(10e6)
	// maxMomentAgeNS is how long before a moment its last sample may lie.
	maxMomentAgeNS = int64(2e9)
	// maxSinceNS limits how far back before a moment the beginning of a thread's state is searched, in ns.
	maxSinceNS = int64(60e9)
	// historyBytes limits the memory for ten minutes of samples. A longer history gets at most twice as much.
	historyBytes = 64 << 20
)

// Moment returns the last sample at or before a time, with its states. It returns nil if the history has none.
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
		defer r.Waits.Events.setExactBegins(states, atNS)
		for i := range states {
			if states[i].SinceNS <= firstNS {
				states[i].SinceNS = r.Timeline.Since(states[i].Thread, states[i].State, firstNS, firstNS-maxSinceNS)
			}
		}
	})
	return last, states, nil
}

// maxChainNS limits the part of a wait for which the history is read again. For a longer wait, its end is read.
const maxChainNS = int64(10e9)

// WaitChain says who held the GVL during a wait.
type WaitChain struct {
	Of  WaitKey
	Sum stream.ChainSum
	// LenNS is the length of the part of the wait that was read. If Cut is true, this is only its end.
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
