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
	"github.com/ddtop/ddtop/sampler/redact"
)

const (
	// maxPending bounds the samples that wait while a picture is made: 8 s at 1 kHz. Past it the Source waits, and counts what it
	// loses (sampler.Reads.Lost).
	maxPending = 8192
	// maxPendingThreads bounds them too, by the threads that they list in all: some 100 MB.
	maxPendingThreads = 1 << 19
	// maxSpare bounds the samples whose memory is kept for the next that wait: a picture's worth. A machine that was full for
	// some seconds must not leave ddtop larger.
	maxSpare = 256
	// columnNS is the length of a kept column of the timeline.
	columnNS = int64(100 * time.Millisecond)
	// minKeptNS is for how long frames and stacks are kept at least: blame and findings look back so far.
	minKeptNS = int64(gvl.MaxBlameWindowNS)
)

// Store folds the samples of a Source and holds what the views draw. The feeder does not wait for a reader: a sample that
// comes while a picture is being made is copied and folded right after.
type Store struct {
	src     sampler.Source
	process sampler.Process
	dict    *sampler.Dictionary // what the screen shows: files have views of their own
	names   *redact.Redactor
	keepNS  int64 // how much history is kept
	history *recording.History

	mu        sync.Mutex // guards what follows
	fold      *gvl.Fold
	rolling   *flamegraph.Rolling
	collector *flamegraph.Collector
	resting   *gvl.Resting // of what is read
	marks     marks
	waits     *waitLog
	exact     exactSpans
	states    []gvl.ThreadState // of what is read, see Read
	holds     gvl.LockHolds
	quality   gvl.QualityMeter
	last      int64
	slow      bool   // of the newest sample: the process is idle
	unkept    uint64 // samples that the history did not take
	stacks    stackReads
	meters    meters
	rec       *recorder // nil: nothing is recorded
	ending    *recorder // nil: no recording is being closed
	keeper    *sampler.Keeper
	held      bool // what is shown can be older than the history: nothing is evicted

	pendMu  sync.Mutex // guards what follows
	pending []*sampler.Sample
	// pendingThreads is how many threads these list in all.
	pendingThreads int
	spare          []*sampler.Sample

	stirred chan struct{} // see stir

	endMu sync.Mutex // guards what follows
	done  bool
	err   error
	end   sampler.End
	ended bool
}

// NewStore returns a Store for a Source that keeps the given stretch of history (0: ten minutes), with the findings' rules
// as they are.
func NewStore(src sampler.Source, history time.Duration) (*Store, error) {
	return newStore(src, Options{History: history})
}

// newStore is NewStore with the history, the findings' rules and the Redactor of Options.
func newStore(src sampler.Source, o Options) (*Store, error) {
	history := o.History
	if history <= 0 {
		history = DefaultHistory
	}
	p := o.Redactor.Process(src.Process())
	s := &Store{src: src, process: p, dict: o.Redactor.View(src.Dictionary()).View(), names: o.Redactor, keepNS: int64(history), stirred: make(chan struct{}, 1)}
	columns := int(s.keepNS/columnNS) + 1
	s.fold = gvl.NewFold(p, s.dict, gvl.Options{ColumnNS: columnNS, Columns: columns, Rules: o.Rules})
	var err error
	s.rolling, err = flamegraph.NewRolling(s.keepNS, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping %v of history: %w", history, err)
	}
	s.history, err = recording.NewHistory(s.keepNS, historyBytes*min(max(s.keepNS, int64(DefaultHistory))/int64(DefaultHistory), 2))
	if err != nil {
		return nil, fmt.Errorf("keeping %v of history: %w", history, err)
	}
	// A server without a client rests like a worker without a job; who waits for a pool does not.
	s.collector = flamegraph.NewCollector(s.fold.Stream(), s.fold.Resting().State, s.rolling)
	s.resting = s.fold.Resting()
	s.collector.ByEndpoint(s.dict)
	s.marks = newMarks(history)
	s.waits = newWaitLog(history)
	s.fold.Stream().Attach(s.waits)
	s.fold.Stream().Attach(&s.holds)
	s.fold.Stream().Attach(&s.quality)
	s.keeper = sampler.NewKeeper(s.dict, max(s.keepNS, minKeptNS))
	return s, nil
}

// Process describes the target.
func (s *Store) Process() sampler.Process { return s.process }

// Run runs the Source until ctx ends, the target ends or nothing can be read any more; State says which.
func (s *Store) Run(ctx context.Context) {
	err := s.runSource(ctx)
	s.mu.Lock()
	s.drain()
	s.mu.Unlock()
	defer s.stir()
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
	s.end, s.ended = s.names.End(end), ended
	return err
}

// SourceState is how the Source is doing.
type SourceState struct {
	// Done: no more samples will come. Err says why when something failed; End how the target ended, when Ended.
	Done  bool
	Err   error
	End   sampler.End
	Ended bool
	// Silent is for how long the process has not answered, in whole seconds, from silentAfter on.
	Silent time.Duration
	// FailingNS is the time since which no sample could be read. It is zero while samples come. Failure says why.
	FailingNS int64
	Failure   string
}

// silentAfter is how long the target of a tick must not have answered to be said.
const silentAfter = 1500 * time.Millisecond

// State says how the Source is doing.
func (s *Store) State() SourceState {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	state := SourceState{Done: s.done, Err: s.err, End: s.end, Ended: s.ended}
	if live, ok := s.src.(interface{ Silent() time.Duration }); ok && !s.done {
		if silent := live.Silent(); silent >= silentAfter {
			state.Silent = silent.Truncate(time.Second)
		}
	}
	if live, ok := s.src.(interface{ Failing() (int64, error) }); ok && !s.done {
		if since, err := live.Failing(); err != nil {
			state.FailingNS, state.Failure = since, s.names.Error(err)
		}
	}
	return state
}

// Feed folds one sample in, or keeps a copy for later when a picture is being made. It is called by one goroutine.
func (s *Store) Feed(x *sampler.Sample) {
	s.pendMu.Lock()
	full := len(s.pending) >= maxPending || s.pendingThreads+len(x.Threads) > maxPendingThreads
	s.pendMu.Unlock()
	if full {
		s.mu.Lock()
	}
	if full || s.mu.TryLock() {
		s.drain()
		s.foldOne(x)
		s.keeper.Feed(x, s.held)
		s.mu.Unlock()
		return
	}
	s.pendMu.Lock()
	defer s.pendMu.Unlock()
	var c *sampler.Sample
	if n := len(s.spare); n > 0 {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		c = new(sampler.Sample)
	}
	c.CopyFrom(x)
	s.pending = append(s.pending, c)
	s.pendingThreads += len(c.Threads)
}

// drain folds what waits. The caller holds mu.
func (s *Store) drain() {
	s.pendMu.Lock()
	batch := s.pending
	s.pending, s.pendingThreads = nil, 0
	s.pendMu.Unlock()
	if len(batch) == 0 {
		return
	}
	for _, x := range batch {
		s.foldOne(x)
	}
	s.pendMu.Lock()
	for _, x := range batch {
		if len(s.spare) < maxSpare && len(s.spare)*len(x.Threads) < maxPendingThreads/8 {
			s.spare = append(s.spare, x)
		}
	}
	s.pendMu.Unlock()
}

func (s *Store) foldOne(x *sampler.Sample) {
	s.fold.Feed(x)
	if err := s.history.Append(x); err != nil {
		s.unkept++ // the one error is a sample beyond the format's limits; all else still holds
	}
	if s.rec != nil {
		s.rec.write(x)
	}
	s.exact.add(&x.Changes)
	s.stacks.count(x)
	s.meters.feed(x)
	if s.marks.due(x.TimeNS) {
		s.fold.Read(func(v *gvl.View) {
			first, _ := v.Timeline.Range()
			s.marks.add(x, v.Findings.Told(), whyUnjudged(v.Findings, x.TimeNS-first), s.stacks, s.meters, s.quality.Quality)
		})
	}
	if s.slow && !x.Slow {
		s.stir()
	}
	s.last, s.slow = x.TimeNS, x.Slow
}

// stir has a screen look at once that rests because the process is idle.
func (s *Store) stir() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

// reading is what Read gives access to, during the call only.
type reading struct {
	*gvl.View
	rolling *flamegraph.Rolling
	// endpoint is the number that weights of a route or a class of jobs have; 0: there are none.
	endpoint func(flamegraph.Endpoint) flamegraph.EndpointID
	resting  *gvl.Resting
	marks    *marks
	waits    *waitLog
	exact    exactSpans
	holds    *gvl.LockHolds
	// lastNS is the time of the newest sample; 0 before the first.
	lastNS int64
	// dropped counts samples that are missing, in all or in the history.
	dropped uint64
	// leftOut counts the frames, stacks, threads and peers that there was no room for.
	leftOut uint64
	// recErr is why the recording can't be written any more.
	recErr error
	// recLost counts the samples that the recording lacks because the disk is slow.
	recLost uint64
}

// Read calls fn with everything folded so far. Samples that come meanwhile are kept, so fn does not slow the sampling
// down, but it should still be quick.
func (s *Store) Read(fn func(*reading)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	var recErr error
	var recLost uint64
	if s.rec != nil {
		recErr, recLost = s.rec.err, s.rec.w.Lost()
	}
	s.fold.Read(func(v *gvl.View) {
		lost := s.unkept
		if v.Sample != nil {
			lost += v.Sample.Reads.Lost
		}
		view := *v
		s.states = append(s.states[:0], v.States...)
		view.States = s.states
		s.fold.Stream().Waiting(func(w *gvl.Wait) {
			if w.Exact {
				begunExactly(view.States, w.Thread, w.FromNS, w.ToNS)
			}
		})
		fn(&reading{recErr: recErr, recLost: recLost, View: &view, rolling: s.rolling, endpoint: s.collector.Endpoint, resting: s.resting, marks: &s.marks, waits: s.waits, exact: s.exact, holds: &s.holds, lastNS: s.last, dropped: lost,
			leftOut: s.dict.LeftOut()})
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
