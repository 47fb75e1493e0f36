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

// StatRequests is what was seen of requests and jobs in the window. Those shorter than the time between two readings of stacks
// may be missing: no figure is the number of requests that were served.
type StatRequests struct {
	// Endpoints are those with most time of threads first, maxStatEndpoints at most, and what is beyond the limits last; Running
	// are those in progress at the end, the oldest first, maxStatRunning at most.
	Endpoints []StatEndpoint `json:"endpoints"`
	Running   []StatRequest  `json:"running"`
	// NotListed is how many of both are left out of these lists. LeftOut is how many requests and jobs are in none of them since more than
	// maxOpenRequests were in progress: what they did is in the endpoint that is Other.
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
	// AgeNS is for how long ago the first of them was looked at, LookNS how long it took to look at all. Cut: there may be more.
	AgeNS  int64 `json:"age_ns"`
	LookNS int64 `json:"look_ns"`
	Cut    bool  `json:"cut"`
}

// StatEndpoint is a route or a job class in the window.
type StatEndpoint struct {
	// Kind is "request" or "job"; "none" with Other, which stands for all that is beyond the limits on endpoints kept apart.
	// Endpoint is null for those whose route could not be told.
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
	// UncertaintyNS bounds these: each lies between itself less that and itself plus that, since a request's ends lie between two readings of its stack.
	UncertaintyNS  int64 `json:"uncertainty_ns"`
	LongestNS      int64 `json:"longest_ns"`
	LongestAtLeast bool  `json:"longest_at_least"`
	// NS is the time of its threads by state, Peers that of io by peer. BlameNS is the time, thread·ns, that others waited for the GVL
	// behind it, BlameShare that by all waiting.
	// FiberNS is the time in which fibers waited for its requests while no thread worked for them.
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
	// Number tells it from others of the same run of ddtop. AgeNS is for how long it has been going on: at least so long with
	// AtLeast, else UncertaintyNS more or less, since it began between two readings of its thread. QueuedNS is how long it had waited
	// before it came to the thread, by what a load balancer or its queue says; null: not known.
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
	// State is what the thread does now, Words the same with its peer; "" while it is Suspended: the thread works for others.
	State string `json:"state"`
	Words string `json:"words"`
	// Waits: with Suspended, a fiber waited for it when it was looked at last, with the Statement and the Exception; FiberNS is for how
	// long fibers did while no thread worked for it.
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

// Stat returns what was seen of requests and jobs in the stream, of endpoints that match says yes to; nil: of all. waitedNS is the time
// that all threads waited for the GVL.
func (r *Requests) Stat(waitedNS int64, match func(endpoint string) bool) StatRequests {
	if match == nil {
		match = func(string) bool { return true }
	}
	out := StatRequests{Endpoints: []StatEndpoint{}, Running: []StatRequest{}, LeftOut: r.leftOut}
	if look, age := r.Fibers(); look != nil {
		out.Fibers = r.statFibers(look, age, match)
	}
	for _, e := range r.Endpoints(0, r.nowNS) {
		if !match(e.Name) {
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
