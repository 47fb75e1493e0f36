package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
)

const (
	// maxPending limits how many samples can wait while a picture is being made: 8 s at 1 kHz. If this number is
	// reached, the Source waits. It counts the samples that it loses during this wait (sampler.Reads.Lost).
	maxPending = 8192
	// maxPendingThreads limits the number of threads in all waiting samples, added up. So these samples take at most
	// about 100 MB of memory.
	maxPendingThreads = 1 << 19
	// maxSpare limits how many copies of samples are kept to be used again. Usually no more samples than this wait
	// while a picture is being made. If the machine was busy for a few seconds, more samples wait. The additional
	// copies are then freed.
	maxSpare = 256
	// ColumnNS is the length of a column of the timeline, in ns.
	ColumnNS = int64(100 * time.Millisecond)
	// minKeptNS is the least time for which frames and stacks are kept, in ns. Blame and findings need stacks up to
	// this age.
	minKeptNS = int64(account.MaxBlameWindowNS)
)

// Store makes the data that the views draw from the samples of a Source. The goroutine that feeds samples to it never
// waits for a view that reads it. If a sample comes while a picture is being made, the Store copies the sample. It adds
// the copy to the data right after the picture.
type Store struct {
	Src     sampler.Source
	target  sampler.Process
	Dict    *sampler.Dictionary // names for the screen. Files are written with other views.
	names   *redact.Redactor
	KeepNS  int64 // how much history is kept
	History *recording.History

	mu        sync.Mutex // guards the following fields
	fold      *measure.Fold
	rolling   *flamegraph.Rolling
	collector *flamegraph.Collector
	resting   *findings.Resting // for Reading
	marks     marks
	waits     *waitLog
	exact     ExactSpans
	states    []gvl.ThreadState // a copy of the states, for Reading
	holds     account.LockHolds
	quality   account.QualityMeter
	last      int64
	slow      bool   // in the newest sample, the process is idle
	unkept    uint64 // samples that the history did not take
	stacks    StackReads
	meters    meters
	Rec       *Recorder // nil if there is no recording
	ending    *Recorder // nil if no recording is being closed
	keeper    *sampler.Keeper
	held      bool // while it is true, nothing is evicted (see Hold)

	pendMu  sync.Mutex // guards the following fields
	pending []*sampler.Sample
	// pendingThreads is the number of threads in all samples of pending, added up.
	pendingThreads int
	spare          []*sampler.Sample

	Stirred chan struct{} // see Stir

	endMu sync.Mutex // guards the following fields
	done  bool
	err   error
	end   sampler.End
	ended bool
	// family is the process's role in its service, such as the role of a worker. It is nil until the Source has
	// reported it.
	family *sampler.Family
}

// DefaultHistory is how much of the past is kept if Options.History is zero.
const DefaultHistory = 10 * time.Minute

// Options are the options for New.
type Options struct {
	// History is how much of the past is kept. Zero means DefaultHistory.
	History time.Duration
	// Rules are the rules by which findings are raised. If it is nil, all rules apply, with their default thresholds.
	Rules *findings.Rules
	// Redactor removes text that could identify a person. If it is nil, nothing is removed.
	Redactor *redact.Redactor
}

// New returns a Store for a Source.
func New(src sampler.Source, o Options) (*Store, error) {
	history := o.History
	if history <= 0 {
		history = DefaultHistory
	}
	p := o.Redactor.Process(src.Process())
	s := &Store{Src: src, target: p, Dict: o.Redactor.View(src.Dictionary()).View(), names: o.Redactor, KeepNS: int64(history), Stirred: make(chan struct{}, 1)}
	columns := int(s.KeepNS/ColumnNS) + 1
	s.fold = measure.NewFold(p, s.Dict, measure.Options{ColumnNS: ColumnNS, Columns: columns, Rules: o.Rules})
	var err error
	s.rolling, err = flamegraph.NewRolling(s.KeepNS, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping %v of history: %w", history, err)
	}
	s.rolling.DivideBy(s.Dict)
	s.History, err = recording.NewHistory(s.KeepNS, historyBytes*min(max(s.KeepNS, int64(DefaultHistory))/int64(DefaultHistory), 2))
	if err != nil {
		return nil, fmt.Errorf("keeping %v of history: %w", history, err)
	}
	// In the flamegraph, threads that rest have the state parked. A server's thread without a client rests, like a
	// worker without a job. A thread that waits for a connection of a pool does not rest.
	s.collector = flamegraph.NewCollector(s.fold.Stream(), s.fold.Resting().State, s.rolling)
	s.resting = s.fold.Resting()
	s.collector.ByEndpointNow(s.Dict)
	s.marks = newMarks(history)
	s.waits = NewWaitLog(history)
	s.fold.Stream().Attach(s.waits)
	s.fold.Stream().Attach(&s.holds)
	s.fold.Stream().Attach(&s.quality)
	s.keeper = sampler.NewKeeper(s.Dict, max(s.KeepNS, minKeptNS))
	return s, nil
}

// Process returns the description of the target, with the role that the target has in its service now.
func (s *Store) Process() sampler.Process {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	p := s.target
	if s.family != nil {
		p.Part = strings.TrimSpace(s.family.Part + " " + s.family.Now)
	}
	return p
}

// Below returns how many descendants of the target run the same program.
func (s *Store) Below() int {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.family == nil || s.done || s.ended {
		return 0
	}
	return s.family.Below
}

const (
	// familyEvery is how often ddtop reads a process's role in its service. The role can change: Sidekiq writes a new
	// title every ten seconds, and a new worker should be seen soon.
	familyEvery = 2 * time.Second
	// familyRest is how long ddtop waits after it failed to read a process's role, because each failed read can block a
	// thread of ddtop.
	familyRest = 30 * time.Second
)

// followFamily reads the process's role in its service again and again, until ctx ends.
func (s *Store) followFamily(ctx context.Context) {
	src, ok := s.Src.(interface {
		Family() (sampler.Family, error)
	})
	if !ok {
		return
	}
	for {
		f, err := src.Family()
		wait := familyEvery
		if err != nil {
			wait = familyRest
		} else {
			s.endMu.Lock()
			s.family = &f
			s.endMu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Run runs the Source until ctx ends, the target ends or the target cannot be read. After that, State says which of
// these three happened.
func (s *Store) Run(ctx context.Context) {
	following, stop := context.WithCancel(ctx)
	go s.followFamily(following)
	err := s.runSource(ctx)
	stop()
	s.mu.Lock()
	s.drain()
	s.mu.Unlock()
	defer s.Stir()
	state := s.State()
	state.Done = true
	if err != nil && !errors.Is(err, sampler.ErrEnded) {
		state.Err = err
	}
	s.SetState(state)
}

// SetState sets the state of the Source. It ignores the fields Silent, FailingNS and Failure, because State asks the
// Source for them at each call.
func (s *Store) SetState(x SourceState) {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.done, s.err, s.end, s.ended = x.Done, x.Err, x.End, x.Ended
}

// runSource runs the Source. If the sampling goroutine panics, runSource returns the panic as an error. So the terminal
// can be restored before the error is printed.
func (s *Store) runSource(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("sampling PID %d failed with a bug in ddtop: %v\n%s", s.target.PID, r, debug.Stack())
		}
	}()
	err = s.Src.Run(ctx, s.Feed)
	end, ended := s.Src.End()
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.end, s.ended = s.names.End(end), ended
	return err
}

// SourceState is the state of a Source.
type SourceState struct {
	// Done is true if no more samples will come. Err is the error that ended the samples, or nil. End is valid if Ended
	// is true.
	Done  bool
	Err   error
	End   sampler.End
	Ended bool
	// Silent says for how long the process has not answered ddtop, in whole seconds. It is zero if this time is below
	// silentAfter.
	Silent time.Duration
	// FailingNS is the time at which samples began to fail, in ns. It is zero while samples can be read. Failure says
	// why they fail.
	FailingNS int64
	Failure   string
}

// silentAfter is how long a target must have given no answer before State reports it as silent.
const silentAfter = 1500 * time.Millisecond

// State returns the state of the Source.
func (s *Store) State() SourceState {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	state := SourceState{Done: s.done, Err: s.err, End: s.end, Ended: s.ended}
	if live, ok := s.Src.(interface{ Silent() time.Duration }); ok && !s.done {
		if silent := live.Silent(); silent >= silentAfter {
			state.Silent = silent.Truncate(time.Second)
		}
	}
	if live, ok := s.Src.(interface{ Failing() (int64, error) }); ok && !s.done {
		if since, err := live.Failing(); err != nil {
			state.FailingNS, state.Failure = since, s.names.Error(err)
		}
	}
	return state
}

// Feed adds a sample to the data of the Store. If a picture is being made, it keeps a copy of the sample, which is
// added after the picture. Only one goroutine may call Feed.
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

// drain adds the samples that have waited during a picture to the data. The caller holds mu.
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
	if err := s.History.Append(x); err != nil {
		s.unkept++ // the sample exceeds the limits of the recording format, so only the history lacks it
	}
	if s.Rec != nil {
		s.Rec.write(x)
	}
	s.exact.add(&x.Changes)
	s.stacks.count(x)
	s.meters.feed(x)
	if s.marks.due(x.TimeNS) {
		v := s.fold.View()
		first, _ := v.Timeline.Range()
		s.marks.add(x, v.Findings.Told(), v.Findings.Growing(), WhyUnjudged(v.Findings, x.TimeNS-first), s.stacks, s.meters, s.quality.Quality)
	}
	if s.last == 0 || s.slow && (!x.Slow || x.TimeNS-s.last >= rareNS) {
		s.Stir()
	}
	s.last, s.slow = x.TimeNS, x.Slow
}

// rareNS is a time between two samples of an idle process, in ns. If a sample comes at least this long after the
// previous one, it wakes the screen. So the screen needs no ticks of its own to draw such samples.
const rareNS = int64(900e6)

// Stir wakes the screen, so that it draws a new sample at once. Without Stir, the screen could still be in its pause
// before the first sample, or in the long pause while the process is idle.
func (s *Store) Stir() {
	select {
	case s.Stirred <- struct{}{}:
	default:
	}
}

// Reading is the data that Read passes to its function. It is valid only during that call.
type Reading struct {
	*measure.View
	Rolling *flamegraph.Rolling
	// Endpoint returns the ID that a route or a class of jobs has in the flamegraph's weights. It is zero if no weights
	// belong to it.
	Endpoint func(flamegraph.Endpoint) flamegraph.EndpointID
	Resting  *findings.Resting
	Marks    *marks
	Waits    *waitLog
	Exact    ExactSpans
	Holds    *account.LockHolds
	// LastNS is the time of the newest sample. It is zero if there is no sample yet.
	LastNS int64
	// Dropped counts the samples that were lost. It includes samples that are only missing from the history.
	Dropped uint64
	// LeftOut counts the frames, stacks, threads and peers that were not stored because there was no room for them.
	LeftOut uint64
	// RecErr is the error that ended the recording early. It is nil if there was none.
	RecErr error
	// RecLost counts the samples that are missing from the recording because the disk is too slow.
	RecLost uint64
}

// Read calls fn with all data of the Store. Samples that come during the call are kept for later, so fn does not slow
// the sampling down. But fn should still be quick.
func (s *Store) Read(fn func(*Reading)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	var recErr error
	var recLost uint64
	if s.Rec != nil {
		recErr, recLost = s.Rec.err, s.Rec.W.Lost()
	}
	v := s.fold.View()
	lost := s.unkept
	if v.Sample != nil {
		lost += v.Sample.Reads.Lost
	}
	s.states = append(s.states[:0], v.States...)
	v.States = s.states
	s.fold.Stream().Waiting(func(w *gvl.Wait) {
		if w.Exact {
			setExactBegin(v.States, w.Thread, w.FromNS, w.ToNS)
		}
	})
	fn(&Reading{
		View: v, Rolling: s.rolling, Endpoint: s.collector.Endpoint, Resting: s.resting, Marks: &s.marks, Waits: s.waits, Exact: s.exact,
		Holds: &s.holds, LastNS: s.last, Dropped: lost, LeftOut: s.Dict.LeftOut(), RecErr: recErr, RecLost: recLost,
	})
}

// Hold sets whether the Store keeps data that is older than the history. The screen needs this while it shows a frozen
// picture, or compares the present with an earlier time.
func (s *Store) Hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
}

// Newest adds the samples that have waited during a picture to the data. It returns the time of the newest sample, or
// zero if there is none. slow is true if the process is idle in the newest sample.
func (s *Store) Newest() (atNS int64, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	return s.last, s.slow
}
