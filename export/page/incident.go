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

// Incident gathers the contents of an incident's page (WriteIncident): states by thread in columns of time, weights by
// stack in slices of time, thread dumps, locks, collections, and a Stat. Its memory is bounded whatever the length:
// columns and slices become longer as time goes on. The page shows how much each limit cut. Not safe for concurrent
// use.
type Incident struct {
	process sampler.Process
	dict    *sampler.Dictionary
	measure *measure.Measure
	// collector charges weights; it is attached to the measure's stream.
	collector *flamegraph.Collector
	lanes     incidentLanes
	weights   incidentWeights
	locks     incidentLocks
	dumps     incidentDumps
	gc        incidentGC

	stat     report.Stat
	shared   []export.SharedLine // of all processes of a page, at its first one
	longest  []account.Request
	finished bool
	// Notes are what the user noted.
	Notes []sampler.Note
	// AllFrames is whether the flamegraph begins with all frames and threads at rest, not with own code first.
	AllFrames bool
	// Heap is a count of the live objects. The page has no table of them if it is nil.
	Heap *export.Heap
}

// NewIncident returns an Incident of the target p, whose samples' IDs point into dict. r are the findings' rules; nil
// means the usual ones.
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

// Feed adds one sample. Samples must come in order of time; they are not kept.
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

// Finish ends the measurement: after the last sample, before the page is written.
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
