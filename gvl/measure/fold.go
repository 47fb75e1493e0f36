package measure

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/sampler"
)

// Options are settings of a Fold. Zero values mean the defaults.
type Options struct {
	// ColumnNS is the length of a column of the Timeline, in ns. Columns is the number of columns.
	ColumnNS int64
	Columns  int
	// Rules are the rules for findings. If Rules is nil, all rules apply with their default thresholds.
	Rules *findings.Rules
}

// Fold collects everything that a screen shows about a stream of samples. It is not safe for concurrent use.
type Fold struct {
	proc     sampler.Process
	measure  *Measure
	timeline *timeline.Timeline
	states   []gvl.ThreadState
	// sample is a copy of the last sample. Its memory is reused.
	sample sampler.Sample
	fed    bool
}

// NewFold returns a Fold for the target p. The IDs in the samples that it will get point into dict.
func NewFold(p sampler.Process, dict *sampler.Dictionary, o Options) *Fold {
	m := New(p, dict, o.Rules)
	m.requests.Keep(int64(o.Columns) * o.ColumnNS)
	return &Fold{proc: p, measure: m, timeline: timeline.New(m.stream, o.ColumnNS, o.Columns)}
}

// Stream returns the Fold's stream. More consumers can be attached to it before the first sample.
func (f *Fold) Stream() *stream.Stream { return f.measure.stream }

// Resting returns the findings.Resting of this Fold. Other consumers of the stream use it to distinguish threads at
// work from threads at rest.
func (f *Fold) Resting() *findings.Resting {
	return f.measure.Resting()
}

// Feed adds one sample, like Measure.Feed.
func (f *Fold) Feed(s *sampler.Sample) []gvl.ThreadState {
	f.states = f.measure.Feed(s)
	f.sample.CopyFrom(s)
	f.fed = true
	return f.states
}

// View has all data that a Fold has collected so far. Its Sample and States are valid until the next Feed.
type View struct {
	Process sampler.Process
	Dict    *sampler.Dictionary
	// Sample is the last sample. States has the state of each of its Threads, in the same order. Sample is nil before
	// the first sample.
	Sample   *sampler.Sample
	States   []gvl.ThreadState
	Account  *account.Account
	Timeline *timeline.Timeline
	Blame    *account.Blame
	Findings *findings.Findings
	Requests *account.Requests
}

// View returns what the Fold has collected so far.
func (f *Fold) View() *View {
	m := f.measure
	v := View{Process: f.proc, Dict: m.dict, Account: m.account, Timeline: f.timeline, Blame: m.blame, Findings: m.findings, Requests: m.requests}
	if f.fed {
		v.Sample, v.States = &f.sample, f.states
	}
	return &v
}
