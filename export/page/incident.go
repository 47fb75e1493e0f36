// Package page writes the HTML page of an incident: findings, a timeline, a flamegraph, requests, locks, collections,
// thread dumps.
package page

import (
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// Incident collects what the page of an incident shows (WriteIncident). It has the states of threads by columns of
// time, and the weights of stacks by slices of time. It also has thread dumps, locks, collections, and the figures of
// `ddtop stat`. Its memory is bounded: in a long measurement, columns and slices become longer. The page shows how much
// is missing because of each limit. An Incident is not safe for concurrent use.
type Incident struct {
	process sampler.Process
	dict    *sampler.Dictionary
	measure *measure.Measure
	// collector divides the measured time among the stacks. It reads the measurement's stream of samples.
	collector *flamegraph.Collector
	lanes     incidentLanes
	weights   incidentWeights
	locks     incidentLocks
	dumps     incidentDumps
	gc        incidentGC

	stat     report.Stat
	shared   []export.SharedLine // findings of all processes; set in the page's first process only
	longest  []account.Request
	finished bool
	// Notes are the notes that the user wrote during the measurement.
	Notes []sampler.Note
	// AllFrames is true if the page first shows a flamegraph of all frames and of all threads, even threads at rest.
	// Otherwise the page first shows only the program's own code.
	AllFrames bool
	// Heap is a count of the live objects. If it is nil, the page has no table of objects.
	Heap *export.Heap
}

// NewIncident returns an Incident of the target p. The IDs in its samples belong to dict. r are the rules of the
// findings. If r is nil, the default rules apply.
func NewIncident(p sampler.Process, dict *sampler.Dictionary, r *findings.Rules) *Incident {
	n := &Incident{process: p, dict: dict, measure: measure.New(p, dict, r)}
	n.lanes.threads = make(map[sampler.ThreadID]*incidentLane)
	n.locks.locks = make(map[incidentLockKey]*incidentLock)
	n.dumps.dict = dict
	s := n.measure.Stream()
	s.Attach(&n.lanes)
	s.Attach(&n.locks)
	s.Attach(&n.gc)
	n.weights.init(dict)
	resting := n.measure.Resting()
	n.dumps.resting = resting
	n.collector = flamegraph.NewCollector(s, resting.State, &n.weights)
	n.collector.ByEndpoint(dict)
	return n
}

// Feed adds one sample. Samples must come in order of time. Feed does not keep s.
func (n *Incident) Feed(s *sampler.Sample) {
	if n.finished {
		return
	}
	states := n.measure.Feed(s)
	n.weights.begin(s.TimeNS)
	if s.Depth == sampler.StackTick {
		n.dumps.take(s, states)
	}
}

// Finish ends the measurement. Call it after the last sample and before the page is written.
func (n *Incident) Finish() {
	if n.finished {
		return
	}
	n.finished = true
	n.stat = n.measure.Stat(0)
	n.longest = n.measure.LongestRequests(maxIncidentRequests)
	n.measure.Stream().Finish()
	n.collector.Finish()
	n.weights.divide()
	n.dumps.finish()
}
