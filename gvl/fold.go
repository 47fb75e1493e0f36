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

// Fold is everything that a screen needs of a stream: a Measure, a timeline and the last sample. Feed may run in one goroutine and
// Read in others; the parts themselves take no locks.
type Fold struct {
	mu       sync.Mutex
	proc     sampler.Process
	measure  *Measure
	timeline *Timeline
	states   []ThreadState
	// sample is the last one, in memory that is kept over samples.
	sample sampler.Sample
	fed    bool
}

// NewFold returns a Fold for the target p, whose samples' IDs point into dict.
func NewFold(p sampler.Process, dict *sampler.Dictionary, o Options) *Fold {
	m := NewMeasure(p, dict, o.Rules)
	m.requests.keep(int64(o.Columns) * o.ColumnNS)
	return &Fold{proc: p, measure: m, timeline: NewTimeline(m.stream, o.ColumnNS, o.Columns)}
}

// Stream is what the Fold makes of its samples, for more consumers; before the first sample.
func (f *Fold) Stream() *Stream { return f.measure.stream }

// Resting says who rests in that stream, by what its findings know. It is for the stream's consumers.
func (f *Fold) Resting() *Resting {
	return f.measure.findings.Resting()
}

// Feed is that of the Measure.
func (f *Fold) Feed(s *sampler.Sample) []ThreadState {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = f.measure.Feed(s)
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
	Requests *Requests
}

// Read calls fn with the folded data while Feed is kept out. fn should be quick, for samples wait meanwhile, and must
// keep neither the View nor its Sample and States; what Row, Top, Current and Stat return is the caller's to keep.
func (f *Fold) Read(fn func(*View)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.measure
	v := View{Process: f.proc, Dict: m.dict, Account: m.account, Timeline: f.timeline, Blame: m.blame, Findings: m.findings, Requests: m.requests}
	if f.fed {
		v.Sample, v.States = &f.sample, f.states
	}
	fn(&v)
}
