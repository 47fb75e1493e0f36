package report

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// StatRequests describes the requests and jobs that were seen in the window. Requests shorter than the time between two
// readings of stacks may be missing. So no figure is the number of all requests that were served.
type StatRequests struct {
	// Endpoints begins with the endpoint whose threads took the most time. If there are more than maxStatEndpoints, the
	// last entry is the sum of all further ones. Running has the requests in progress at the end of the window: at most
	// maxStatRunning, the oldest first.
	Endpoints []StatEndpoint `json:"endpoints"`
	Running   []StatRequest  `json:"running"`
	// AtLeast is StatEndpoint.AtLeast for all endpoints together.
	AtLeast bool `json:"at_least"`
	// NotListed is the number of entries that are left out of these two lists. LeftOut is the number of requests and
	// jobs that were not followed separately, because more than maxOpenRequests were in progress. Their time is in the
	// endpoint whose field Other is set.
	NotListed int    `json:"not_listed"`
	LeftOut   uint64 `json:"left_out"`
	// Fibers counts the waiting fibers, as they were last read. It is null if they were not read.
	Fibers *StatFibers `json:"fibers"`
	enough
}

// StatFibers counts the fibers that wait.
type StatFibers struct {
	// Waiting is the number of known fibers that wait. Requests is how many of them work for a request or a job.
	Waiting  int `json:"waiting"`
	Requests int `json:"requests"`
	// AgeNS is how long ago the reading of the fibers began, in ns. LookNS is how long the reading took. Cut is set if
	// there may be more fibers, because the reading was cut short.
	AgeNS  int64 `json:"age_ns"`
	LookNS int64 `json:"look_ns"`
	Cut    bool  `json:"cut"`
}

// StatEndpoint is a route or a class of jobs in the window.
type StatEndpoint struct {
	// Kind is "request" or "job". It is "none" for the sum of all endpoints that are not listed (Other). Endpoint is
	// null if the route is not known.
	Kind     string  `json:"kind"`
	Endpoint *string `json:"endpoint"`
	Other    bool    `json:"other"`
	// Ended is the number of requests that were seen to end. Running is the number of requests in progress. PerSecond
	// is Ended divided by the length of the window.
	Ended     int     `json:"ended"`
	Running   int     `json:"running"`
	PerSecond float64 `json:"per_second"`
	// AtLeast is true if too many requests were missed. In this case Ended and PerSecond are lower bounds, and the
	// quantiles describe only the requests that were seen.
	AtLeast bool `json:"at_least"`
	// Measured is how many requests were seen both to begin and to end. The quantiles are computed from these requests.
	// LongestNS is the length of the longest of all requests. If LongestAtLeast is set, it is a lower bound: the
	// request has not ended, or its beginning or its end was not seen.
	Measured int64 `json:"measured"`
	P50NS    int64 `json:"p50_ns"`
	P95NS    int64 `json:"p95_ns"`
	P99NS    int64 `json:"p99_ns"`
	MaxNS    int64 `json:"max_ns"`
	// UncertaintyNS is the possible error of each of these lengths, in ns. There is an error because a request begins
	// and ends between two readings of its stack.
	UncertaintyNS  int64 `json:"uncertainty_ns"`
	LongestNS      int64 `json:"longest_ns"`
	LongestAtLeast bool  `json:"longest_at_least"`
	// Queued is how long the requests waited before a thread took them. It is null if this time is known for no
	// request.
	Queued *StatQueued `json:"queued"`
	// NS is the time of the threads by state. Peers divides the time in the state io by peer. BlameNS is how long other
	// threads waited for the GVL while threads of this endpoint held it, in ns, added up over the waiting threads.
	// BlameShare is BlameNS divided by all waiting time. FiberNS is how long fibers waited for the endpoint's requests
	// while no thread worked for them.
	NS         StatStates     `json:"ns"`
	FiberNS    int64          `json:"fiber_ns"`
	Peers      []StatPeerTime `json:"peers"`
	BlameNS    int64          `json:"blame_ns"`
	BlameShare float64        `json:"blame_share"`
}

// StatQueued describes how long requests waited before a thread took them. Count is how many of these waits are known.
type StatQueued struct {
	Count int64 `json:"count"`
	P50NS int64 `json:"p50_ns"`
	P95NS int64 `json:"p95_ns"`
	MaxNS int64 `json:"max_ns"`
}

// QueuedOf describes the waits in a histogram. It returns nil if the histogram is empty.
func QueuedOf(h *gvl.Histogram) *StatQueued {
	n, longest := h.Count()
	if n == 0 {
		return nil
	}
	return &StatQueued{Count: n, P50NS: h.Quantile(.5), P95NS: h.Quantile(.95), MaxNS: longest}
}

// StatPeerTime is how long threads in the state io waited for a peer. Peer has the same keys as in a dump.
type StatPeerTime struct {
	Peer map[string]any `json:"peer"`
	Name string         `json:"name"`
	NS   int64          `json:"ns"`
}

// StatServing is a request or job that a thread works for.
type StatServing struct {
	Kind     string  `json:"kind"`
	Endpoint *string `json:"endpoint"`
	// Number is unique within a run of ddtop. AgeNS is how long the request has been in progress. If AtLeast is set, it
	// is a lower bound. Otherwise its possible error is UncertaintyNS, because the request began between two readings
	// of its thread. QueuedNS is how long the request waited before a thread took it, as a load balancer or its queue
	// reports. It is null if not known.
	Number        sampler.WorkNumber `json:"number"`
	AgeNS         int64              `json:"age_ns"`
	AtLeast       bool               `json:"at_least"`
	UncertaintyNS int64              `json:"uncertainty_ns"`
	QueuedNS      *int64             `json:"queued_ns"`
	// Values is the request's path and query, or the job's arguments. It is null unless ddtop was told to read values
	// (--values).
	Values *string `json:"values"`
	// Statement is the query that the request or job sends to a database or another service. Exception is the exception
	// that it handles.
	Statement *string `json:"statement"`
	Exception *string `json:"exception"`
	// Span and RootSpan are the IDs of the tracer's spans, as decimal numbers.
	Span     *string `json:"span"`
	RootSpan *string `json:"root_span"`
}

// StatRequest is a request or job in progress at the end of the window.
type StatRequest struct {
	StatServing
	Thread sampler.ThreadID `json:"thread"`
	// State is the present state of the request's thread. Words describes the state and the peer. While the request is
	// Suspended, State is "", because the thread works for other requests.
	State string `json:"state"`
	Words string `json:"words"`
	// Waits is set if the request is Suspended and a fiber waited for it when the fibers were last read. In this case
	// Statement and Exception belong to this fiber. FiberNS is how long fibers waited for the request while no thread
	// worked for it.
	Suspended bool           `json:"suspended"`
	Waits     bool           `json:"waits"`
	NS        StatStates     `json:"ns"`
	FiberNS   int64          `json:"fiber_ns"`
	Peers     []StatPeerTime `json:"peers"`
	BlameNS   int64          `json:"blame_ns"`
}

// TextOrNil returns a pointer to a text. An empty text means that it is not known: the result is then nil.
func TextOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
