package ui

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxPending bounds the samples that wait while a picture is made: 8 s at 1 kHz. Past it samples are dropped and
	// counted, and the picture says so.
	maxPending = 8192
	// maxSpare bounds the samples whose memory is kept for the next that wait: a picture's worth. A machine that was full for
	// some seconds must not leave ddtop larger.
	maxSpare = 256
	// columnNS is the length of a kept column of the timeline.
	columnNS = int64(100 * time.Millisecond)
	// minKeptNS is for how long frames and stacks are kept at least: blame and findings look back so far.
	minKeptNS = int64(gvl.MaxBlameWindowNS)
)

// Store folds the samples of a Source and holds what the views draw. The sampling goroutine never waits for a reader:
// a sample that comes while a picture is being made is copied and folded right after.
type Store struct {
	src     sampler.Source
	process sampler.Process
	dict    *sampler.Dictionary
	keepNS  int64 // how much history is kept
	history *recording.History

	mu        sync.Mutex // guards what follows
	fold      *gvl.Fold
	rolling   *flamegraph.Rolling
	collector *flamegraph.Collector
	tags      []uint8
	resting   *gvl.Resting
	marks     marks
	waits     waitLog
	last      int64
	slow      bool   // of the newest sample: the process is idle
	unkept    uint64 // samples that the history did not take
	stacks    stackReads
	rec       *recorder // nil: nothing is recorded
	keeper    *sampler.Keeper
	held      bool // what is shown can be older than the history: nothing is evicted

	pendMu  sync.Mutex // guards what follows
	pending []*sampler.Sample
	spare   []*sampler.Sample
	dropped uint64

	endMu sync.Mutex // guards what follows
	done  bool
	err   error
	end   sampler.End
	ended bool
}

// NewStore returns a Store for a Source that keeps the given stretch of history (0: ten minutes), with the findings' rules
// as they are.
func NewStore(src sampler.Source, history time.Duration) (*Store, error) {
	return newStore(src, history, nil)
}

// newStore is NewStore with the findings' rules; nil: as they are.
func newStore(src sampler.Source, history time.Duration, rules *gvl.Rules) (*Store, error) {
	if history <= 0 {
		history = DefaultHistory
	}
	p := src.Process()
	s := &Store{src: src, process: p, dict: src.Dictionary(), keepNS: int64(history)}
	columns := int(s.keepNS/columnNS) + 1
	s.fold = gvl.NewFold(p, s.dict, gvl.Options{ColumnNS: columnNS, Columns: columns, Rules: rules})
	var err error
	s.rolling, err = flamegraph.NewRolling(s.keepNS, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping %v of history: %w", history, err)
	}
	s.history, err = recording.NewHistory(s.keepNS, historyBytes, p, s.dict)
	if err != nil {
		return nil, fmt.Errorf("keeping %v of history: %w", history, err)
	}
	s.collector = flamegraph.NewCollector(flamegraph.Meaning{
		Waiting: flamegraph.Tags(uint8(gvl.Waiting)),
		Held:    flamegraph.Tags(uint8(gvl.Running), uint8(gvl.Stalled), uint8(gvl.GC)),
		OnCPU:   flamegraph.Tags(uint8(gvl.Running), uint8(gvl.GC), uint8(gvl.Native)),
	}, s.rolling)
	s.resting = gvl.NewResting(s.dict)
	s.marks = newMarks(history)
	s.waits = newWaitLog(history)
	s.keeper = sampler.NewKeeper(s.dict, max(s.keepNS, minKeptNS))
	return s, nil
}

// Process describes the target.
func (s *Store) Process() sampler.Process { return s.process }

// Run runs the Source until ctx ends, the target ends or nothing can be read any more; State tells which.
func (s *Store) Run(ctx context.Context) {
	err := s.runSource(ctx)
	s.mu.Lock()
	s.drain()
	s.mu.Unlock()
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.done = true
	if err != nil && !errors.Is(err, sampler.ErrEnded) {
		s.err = err
	}
}

// runSource turns a panic of the sampling goroutine into an error, so that the terminal can be given back before
// anybody reads about it.
func (s *Store) runSource(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("sampling PID %d failed with a bug in ddtop: %v\n%s", s.process.PID, r, debug.Stack())
		}
	}()
	err = s.src.Run(ctx, s.Feed)
	end, ended := s.src.End()
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.end, s.ended = end, ended
	return err
}

// SourceState is how the Source is doing.
type SourceState struct {
	// Done: no more samples will come. Err says why when something failed; End how the target ended, when Ended.
	Done  bool
	Err   error
	End   sampler.End
	Ended bool
}

// State tells how the Source is doing.
func (s *Store) State() SourceState {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	return SourceState{Done: s.done, Err: s.err, End: s.end, Ended: s.ended}
}

// Feed folds one sample in, or keeps a copy for later when a picture is being made. It is called by one goroutine.
func (s *Store) Feed(x *sampler.Sample) {
	if s.mu.TryLock() {
		s.drain()
		s.foldOne(x)
		s.keeper.Feed(x, s.held)
		s.mu.Unlock()
		return
	}
	s.pendMu.Lock()
	defer s.pendMu.Unlock()
	if len(s.pending) >= maxPending {
		s.dropped++
		return
	}
	var c *sampler.Sample
	if n := len(s.spare); n > 0 {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		c = new(sampler.Sample)
	}
	copySample(c, x)
	s.pending = append(s.pending, c)
}

// drain folds what waits. The caller holds mu.
func (s *Store) drain() {
	s.pendMu.Lock()
	batch := s.pending
	s.pending = nil
	s.pendMu.Unlock()
	if len(batch) == 0 {
		return
	}
	for _, x := range batch {
		s.foldOne(x)
	}
	s.pendMu.Lock()
	s.spare = append(s.spare, batch[:min(len(batch), max(maxSpare-len(s.spare), 0))]...)
	s.pendMu.Unlock()
}

func (s *Store) foldOne(x *sampler.Sample) {
	states := s.fold.Feed(x)
	if err := s.history.Append(x); err != nil {
		s.unkept++ // the one error is a sample beyond the format's limits; all else still holds
	}
	if s.rec != nil {
		s.rec.write(x)
	}
	s.tags = s.tags[:0]
	for i := range states {
		state := states[i].State
		if state == gvl.IO && s.resting.IdleIO(&states[i]) {
			state = gvl.Parked // a server without a client rests like a worker without a job
		}
		s.tags = append(s.tags, uint8(state))
	}
	s.collector.Feed(x, s.tags)
	s.waits.feed(x.TimeNS, states)
	s.stacks.count(x)
	if s.marks.due(x.TimeNS) {
		s.fold.Read(func(v *gvl.View) {
			first, _ := v.Timeline.Range()
			s.marks.add(x, v.Findings.Current(), whyUnjudged(v.Findings, x.TimeNS-first), s.stacks)
		})
	}
	s.last, s.slow = x.TimeNS, x.Slow
}

// reading is what Read gives access to, during the call only.
type reading struct {
	*gvl.View
	rolling *flamegraph.Rolling
	marks   *marks
	waits   *waitLog
	// lastNS is the time of the newest sample; 0 before the first.
	lastNS int64
	// dropped counts samples that are missing, in all or in the history.
	dropped uint64
	// recErr is why the recording can't be written any more.
	recErr error
}

// Read calls fn with everything folded so far. Samples that come meanwhile are kept, so fn does not slow the sampling
// down, but it should still be quick.
func (s *Store) Read(fn func(*reading)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	s.pendMu.Lock()
	dropped := s.dropped
	s.pendMu.Unlock()
	var recErr error
	if s.rec != nil {
		recErr = s.rec.err
	}
	s.fold.Read(func(v *gvl.View) {
		fn(&reading{recErr: recErr, View: v, rolling: s.rolling, marks: &s.marks, waits: &s.waits, lastNS: s.last, dropped: dropped + s.unkept})
	})
}

// hold says whether what is shown can be older than the history: a picture that stands still, or is compared with.
func (s *Store) hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
}

// newest is the time of the newest sample, those included that wait for a picture to be made; 0 before the first.
func (s *Store) newest() (atNS int64, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	return s.last, s.slow
}

// copySample makes dst equal to src, re-using dst's memory.
func copySample(dst, src *sampler.Sample) {
	ractors, threads := dst.Ractors, dst.Threads
	*dst = *src
	dst.Ractors = ractors[:0]
	for i := range src.Ractors {
		r := src.Ractors[i]
		var queue []sampler.ThreadID
		if i < len(ractors) {
			queue = ractors[:cap(ractors)][i].Queue[:0]
		}
		if r.Queue != nil {
			r.Queue = append(queue, r.Queue...)
		}
		dst.Ractors = append(dst.Ractors, r)
	}
	dst.Threads = append(threads[:0], src.Threads...)
	for i := range dst.Threads {
		if r := dst.Threads[i].Resumers; r != nil {
			dst.Threads[i].Resumers = append([]sampler.StackID(nil), r...)
		}
	}
}
