package account

import (
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// How many endpoints and requests in progress a Stat lists: those with most time, and the oldest.
const (
	maxStatEndpoints = 100
	maxStatRunning   = 500
)

// StatRequests describes the requests and jobs that were seen in the window. Those shorter than the time between two
// readings of stacks may be missing. So no figure is the number of requests served.
type StatRequests struct {
	// Endpoints begins with the endpoint whose threads took the most time, and ends with the sum of all beyond the
	// limits. It has at most maxStatEndpoints entries. Running are the requests in progress at the end, the oldest
	// first, at most maxStatRunning.
	Endpoints []StatEndpoint `json:"endpoints"`
	Running   []StatRequest  `json:"running"`
	// NotListed is how many entries are left out of both lists. LeftOut is how many requests and jobs were not
	// followed one by one, because more than maxOpenRequests were in progress. Their time is in the endpoint with
	// Other.
	NotListed int    `json:"not_listed"`
	LeftOut   uint64 `json:"left_out"`
	// Fibers is the last look at the fibers that wait; null: there was none.
	Fibers *StatFibers `json:"fibers"`
	low    bool
}

// StatFibers is a look at the fibers that wait.
type StatFibers struct {
	// Waiting is how many there were of those that are known, Requests how many of them waited for a request or a job.
	Waiting  int `json:"waiting"`
	Requests int `json:"requests"`
	// AgeNS is how long ago the first fiber was looked at. LookNS is how long it took to look at all of them. Cut is
	// set if there may be more fibers.
	AgeNS  int64 `json:"age_ns"`
	LookNS int64 `json:"look_ns"`
	Cut    bool  `json:"cut"`
}

// StatEndpoint is a route or a job class in the window.
type StatEndpoint struct {
	// Kind is "request" or "job", or "none" for the sum of all endpoints beyond the limits (Other). Endpoint is null
	// if the route is not known.
	Kind     string  `json:"kind"`
	Endpoint *string `json:"endpoint"`
	Other    bool    `json:"other"`
	// Ended is how many were seen to end, Running how many go on, PerSecond Ended by the length of the window.
	Ended     int     `json:"ended"`
	Running   int     `json:"running"`
	PerSecond float64 `json:"per_second"`
	// Measured is how many were seen to begin and to end: the quantiles are theirs. LongestNS is the longest of all;
	// LongestAtLeast: it is a lower bound, for that one goes on, or one of its ends was not seen.
	Measured int64 `json:"measured"`
	P50NS    int64 `json:"p50_ns"`
	P95NS    int64 `json:"p95_ns"`
	P99NS    int64 `json:"p99_ns"`
	MaxNS    int64 `json:"max_ns"`
	// UncertaintyNS is how much each of these lengths may be too long or too short, because a request begins and ends
	// between two readings of its stack.
	UncertaintyNS  int64 `json:"uncertainty_ns"`
	LongestNS      int64 `json:"longest_ns"`
	LongestAtLeast bool  `json:"longest_at_least"`
	// NS is the time of the threads by state. Peers is the time of io by peer. BlameNS is the time, thread·ns, that
	// other threads waited for the GVL behind this endpoint. BlameShare is BlameNS divided by all waiting time.
	// FiberNS is the time in which fibers waited for the endpoint's requests while no thread worked for them.
	NS         StatStates     `json:"ns"`
	FiberNS    int64          `json:"fiber_ns"`
	Peers      []StatPeerTime `json:"peers"`
	BlameNS    int64          `json:"blame_ns"`
	BlameShare float64        `json:"blame_share"`
}

// StatPeerTime is time in io that waited for a peer; its keys are those of a dump.
type StatPeerTime struct {
	Peer map[string]any `json:"peer"`
	Name string         `json:"name"`
	NS   int64          `json:"ns"`
}

// StatServing is a request or job as a thread works for it. A text is null where it is not known.
type StatServing struct {
	Kind     string  `json:"kind"`
	Endpoint *string `json:"endpoint"`
	// Number is unique within a run of ddtop. AgeNS is how long the request has been going on. With AtLeast it is a
	// lower bound. Otherwise it may be off by UncertaintyNS, because the request began between two readings of its
	// thread. QueuedNS is how long the request waited before it came to the thread, as a load balancer or its queue
	// reports. It is null if not known.
	Number        sampler.WorkNumber `json:"number"`
	AgeNS         int64              `json:"age_ns"`
	AtLeast       bool               `json:"at_least"`
	UncertaintyNS int64              `json:"uncertainty_ns"`
	QueuedNS      *int64             `json:"queued_ns"`
	// Values are its path and query, or its arguments; null unless values were read (--values).
	Values *string `json:"values"`
	// Statement is what it asks a database or another service, Exception what it handles.
	Statement *string `json:"statement"`
	Exception *string `json:"exception"`
	// Span and RootSpan are the tracer's, in decimal.
	Span     *string `json:"span"`
	RootSpan *string `json:"root_span"`
}

// StatRequest is a request or job in progress at the end of the window.
type StatRequest struct {
	StatServing
	Thread sampler.ThreadID `json:"thread"`
	// State is what the thread does now. Words is the same with the peer. State is "" while the request is Suspended,
	// because the thread then works for others.
	State string `json:"state"`
	Words string `json:"words"`
	// Waits is set if the request is Suspended and a fiber waited for it when the fibers were last looked at.
	// Statement and Exception are then that fiber's. FiberNS is how long fibers waited for the request while no thread
	// worked for it.
	Suspended bool           `json:"suspended"`
	Waits     bool           `json:"waits"`
	NS        StatStates     `json:"ns"`
	FiberNS   int64          `json:"fiber_ns"`
	Peers     []StatPeerTime `json:"peers"`
	BlameNS   int64          `json:"blame_ns"`
}

// ServingOf says for whom a thread works, at a time, CLOCK_MONOTONIC in ns; ok is false where there is nothing to say.
func ServingOf(s sampler.Serving, atNS int64, dict *sampler.Dictionary) (out StatServing, ok bool) {
	if s == (sampler.Serving{}) || dict == nil {
		return StatServing{}, false
	}
	w := dict.Work(s.Work)
	out = StatServing{
		Kind: w.Kind.String(), Endpoint: TextOrNil(w.Endpoint), Number: w.Number, Values: TextOrNil(w.Values),
		Statement: TextOrNil(dict.Statement(s.Statement)), Exception: TextOrNil(dict.Exception(s.Exception)),
		Span: spanOrNil(s.Span), RootSpan: spanOrNil(s.RootSpan),
	}
	if w.Number != 0 {
		out.AgeNS, out.AtLeast, out.UncertaintyNS = max(atNS-beginOf(&w, atNS), 0), w.BeforeNS <= 0, beginSlack(&w)
	}
	if w.QueuedNS > 0 {
		out.QueuedNS = &w.QueuedNS
	}
	return out, true
}

// TextOrNil returns nil for "": a text that is not known.
func TextOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func spanOrNil(id uint64) *string {
	if id == 0 {
		return nil
	}
	s := strconv.FormatUint(id, 10)
	return &s
}

// Stat returns the requests and jobs of the endpoints for which match returns true. If match is nil, it returns all.
// waitedNS is the time that all threads waited for the GVL.
func (r *Requests) Stat(waitedNS int64, match func(endpoint string) bool) StatRequests {
	if match == nil {
		match = func(string) bool { return true }
	}
	out := StatRequests{Endpoints: []StatEndpoint{}, Running: []StatRequest{}, LeftOut: r.leftOut}
	if look, age := r.Fibers(); look != nil {
		out.Fibers = r.statFibers(look, age, match)
	}
	for _, e := range r.Endpoints(0, r.nowNS) {
		if !match(e.Name) || !e.Seen() {
			continue
		}
		if len(out.Endpoints) >= maxStatEndpoints && !e.Other {
			out.NotListed++
			continue
		}
		measured, longest := e.Durations.Count()
		out.Endpoints = append(out.Endpoints, StatEndpoint{
			Kind: e.Kind.String(), Endpoint: TextOrNil(e.Name), Other: e.Other, Ended: e.Ended, Running: e.Running, PerSecond: e.PerSecond,
			Measured: measured, P50NS: e.Durations.Quantile(.5), P95NS: e.Durations.Quantile(.95), P99NS: e.Durations.Quantile(.99), MaxNS: longest, UncertaintyNS: e.SlackNS,
			LongestNS: e.LongestNS, LongestAtLeast: e.LongestAtLeast, NS: StatesOf(e.NS), FiberNS: e.FiberNS, Peers: r.peerTimes(e.Peers), BlameNS: e.BlameNS,
			BlameShare: gvl.Ratio(e.BlameNS, waitedNS),
		})
	}
	for _, q := range r.Running() {
		if !match(q.Work.Endpoint) {
			continue
		}
		if len(out.Running) >= maxStatRunning {
			out.NotListed++
			continue
		}
		out.Running = append(out.Running, r.statRequest(&q))
	}
	return out
}

// statFibers counts the fibers of a look, with the requests that match says yes to.
func (r *Requests) statFibers(look *sampler.Fibers, ageNS int64, match func(endpoint string) bool) *StatFibers {
	out := &StatFibers{Waiting: len(look.List), AgeNS: ageNS, LookNS: look.ReadNS, Cut: look.Cut}
	for i := range look.List {
		if w := r.dict.Work(look.List[i].Serving.Work); w.Number != 0 && match(w.Endpoint) {
			out.Requests++
		}
	}
	return out
}

func (r *Requests) statRequest(q *Request) StatRequest {
	out := StatRequest{Thread: q.Thread, Suspended: q.Suspended, Waits: q.Suspended && q.Waits, NS: StatesOf(q.NS), FiberNS: q.FiberNS, Peers: r.peerTimes(q.Peers), BlameNS: q.BlameNS}
	out.StatServing, _ = ServingOf(q.Serving, q.ToNS, r.dict)
	if q.Suspended && !q.Waits {
		out.Statement, out.Exception, out.Span, out.RootSpan = nil, nil, nil, nil // as they were when its fiber ran last
	} else if !q.Suspended {
		out.State, out.Words = q.Now.State.String(), gvl.Describe(q.Now, r.dict)
	}
	out.AgeNS, out.AtLeast, out.UncertaintyNS = q.DurationNS(), q.AtLeast, q.SlackNS
	return out
}

func (r *Requests) peerTimes(list []PeerNS) []StatPeerTime {
	out := make([]StatPeerTime, 0, len(list))
	for _, p := range list {
		peer := r.dict.Peer(p.Peer)
		out = append(out, StatPeerTime{Peer: gvl.PeerJSON(peer), Name: gvl.PeerName(peer), NS: p.NS})
	}
	return out
}
