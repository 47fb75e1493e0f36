package gvl

import (
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxRequestPeers bounds the peers told of one request or endpoint; the io of more is in its state's time alone.
	maxRequestPeers = 4
)

// PeerNS is time in io that waited for a peer, in ns.
type PeerNS struct {
	Peer sampler.PeerID
	NS   int64
}

// Request is one request or job, as far as it was seen.
type Request struct {
	// Work is what was known of it last.
	Work   sampler.Work
	Thread sampler.ThreadID
	// FromNS and ToNS are when it began and ended, CLOCK_MONOTONIC in ns, each the middle between the reading of the thread's stack
	// without it and the one with it. InProgress: it goes on, and ToNS is the time of the last sample. AtLeast: it took longer than
	// that, since it had begun before its thread was looked at first, or ended while nothing was sampled.
	FromNS, ToNS int64
	InProgress   bool
	AtLeast      bool
	// NS is the time of its threads by state: less than ToNS - FromNS where it began before the measurement, was not sampled,
	// or was suspended (a fiber that is not running has no state).
	NS [NumStates]int64
	// Peers are those that its io waited for, the longest first, maxRequestPeers at most.
	Peers []PeerNS
	// BlameNS is the time, thread·ns, that other threads waited for the GVL while its thread held it for it.
	BlameNS int64
	// Of one in progress at the last sample: Suspended, its thread does not work for it right now; else Now is the thread's state,
	// Serving and Stack what was read of it.
	Suspended bool
	Now       ThreadState
	Serving   sampler.Serving
	Stack     sampler.StackID
}

// DurationNS is its age, or how long it took, in ns: at least so much with AtLeast or InProgress.
func (q *Request) DurationNS() int64 { return max(q.ToNS-q.FromNS, 0) }

// Endpoint is a route or a job class over a stretch of time. Requests shorter than the time between two readings of stacks may
// have been missed: figures are of those that were seen, and none is the number of requests that were served.
type Endpoint struct {
	// Kind and Name are those of sampler.Work; Name is "" for those whose route could not be told. Other: it stands for all endpoints
	// and requests beyond the limits on those kept apart.
	Kind  sampler.WorkKind
	Name  string
	Other bool
	// Ended is how many were seen to end, Running how many go on.
	Ended, Running int
	// Durations are of those seen to begin and to end. LongestNS is the longest of all, LongestAtLeast says that it took longer: it
	// goes on, or one of its ends was not seen.
	Durations      Histogram
	LongestNS      int64
	LongestAtLeast bool
	// NS is the time of threads by state, Peers that of io by peer (the longest first, maxRequestPeers at most), BlameNS the time,
	// thread·ns, that others waited for the GVL behind it.
	NS      [NumStates]int64
	Peers   []PeerNS
	BlameNS int64
	// PerSecond is Ended by the length of the stretch of time.
	PerSecond float64
}

// TotalNS is the time of threads in it, ns.
func (e *Endpoint) TotalNS() int64 {
	var sum int64
	for _, ns := range e.NS {
		sum += ns
	}
	return sum
}

// Requests follows the requests and jobs that threads work for (sampler.Serving). A request belongs to the endpoint that was
// known of it last, from its begin on. It is a Consumer and not safe for concurrent use.
type Requests struct {
	Ignore
	leftOut uint64
}

// NewRequests returns a Requests of a stream whose samples' IDs point into dict, that tells endpoints by the second for the
// last keepNS.
func NewRequests(s *Stream, _ *sampler.Dictionary, _ int64) *Requests {
	r := &Requests{}
	s.Attach(r)
	return r
}

// Running returns the requests and jobs in progress at the last sample, the oldest first. The slice is the caller's.
func (r *Requests) Running() []Request { return nil }

// At returns those that were in progress at an earlier time and are remembered, the oldest first. What ended since is as it was
// at its end: NS is of its whole length.
func (r *Requests) At(int64) []Request { return nil }

// Of returns those that a thread worked for between two times and that are remembered, in the order of their begin.
func (r *Requests) Of(sampler.ThreadID, int64, int64) []Request { return nil }

// Endpoints returns what was seen of each endpoint between two times, in the whole seconds that hold them (with fromNS 0: since
// the first sample), those with most time first, and what is beyond the limits last. The slice is the caller's.
func (r *Requests) Endpoints(int64, int64) []Endpoint { return nil }

// LeftOut returns how many requests were not kept apart since there were too many at a time.
func (r *Requests) LeftOut() uint64 { return r.leftOut }
