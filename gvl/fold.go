package gvl

import (
	"sync"

	"github.com/ddtop/ddtop/sampler"
)

// Options sizes a Fold; zero values mean the defaults.
type Options struct {
	// ColumnNS and Columns are the Timeline's.
	ColumnNS int64
	Columns  int
	// Rules are the findings' rules; nil: all of them with their default limits.
	Rules *Rules
}

// Fold is everything that a screen or report needs of a stream: states, totals, timeline, blame and findings behind
// one Feed. Feed may run in one goroutine and Read and Now in others; the parts themselves take no locks.
type Fold struct {
	mu       sync.Mutex
	proc     sampler.Process
	dict     *sampler.Dictionary
	class    *Classifier
	stream   *Stream
	account  *Account
	timeline *Timeline
	blame    *Blame
	findings *Findings
	states   []ThreadState
	// sample is the last one, in memory that is kept over samples.
	sample sampler.Sample
	fed    bool
}

// NewFold returns a Fold for the target p, whose samples' IDs point into dict.
func NewFold(p sampler.Process, dict *sampler.Dictionary, o Options) *Fold {
	stream := NewStream(p)
	blame := newBlame(stream, dict)
	return &Fold{
		proc: p, dict: dict,
		class:    NewClassifier(p, dict),
		stream:   stream,
		account:  NewAccount(stream, p, dict),
		timeline: NewTimeline(stream, o.ColumnNS, o.Columns),
		blame:    blame,
		findings: newFindings(stream, p, dict, blame, o.Rules),
	}
}

// Stream is what the Fold makes of its samples, for more consumers; before the first sample.
func (f *Fold) Stream() *Stream { return f.stream }

// Feed folds one sample in and returns its states, which are valid until the next Feed. Samples must come in order of
// time. The sample is not kept. In the steady state nothing is allocated.
func (f *Fold) Feed(s *sampler.Sample) []ThreadState {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = f.class.Classify(s)
	f.stream.Feed(s, f.states)
	f.sample.CopyFrom(s)
	f.fed = true
	return f.states
}

// View is what Read gives access to; it is valid during the call only.
type View struct {
	Process sampler.Process
	Dict    *sampler.Dictionary
	// Sample is the last sample; nil before the first.
	Sample *sampler.Sample
	// States are the states of Sample's threads, parallel to Sample.Threads.
	States   []ThreadState
	Account  *Account
	Timeline *Timeline
	Blame    *Blame
	Findings *Findings
}

// Read calls fn with the folded data while Feed is kept out. fn should be quick, for samples wait meanwhile, and must
// keep neither the View nor its Sample and States; what Row, Top, Current and Stat return is the caller's to keep.
func (f *Fold) Read(fn func(*View)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := View{
		Process: f.proc, Dict: f.dict, Account: f.account, Timeline: f.timeline, Blame: f.blame, Findings: f.findings,
	}
	if f.fed {
		v.Sample, v.States = &f.sample, f.states
	}
	fn(&v)
}
