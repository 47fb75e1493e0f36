package report

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// StatRequests describes the requests and jobs that ddtop saw in the measured time. ddtop finds them in stacks, so a
// request that is shorter than the time between two reads of stacks may be missing. So no figure is the number of all
// requests that were served.
type StatRequests struct {
	// Endpoints is sorted by the time of the endpoints' threads, the largest first. If there are more than
	// maxStatEndpoints, the last entry is the sum of all endpoints that are not listed. Running has the requests in
	// progress at the end of the measured time, the oldest first. It has at most maxStatRunning.
	Endpoints []StatEndpoint `json:"endpoints"`
	Running   []StatRequest  `json:"running"`
	// AtLeast is StatEndpoint.AtLeast for all endpoints together.
	AtLeast bool `json:"at_least"`
	// NotListed is the number of entries that are left out of Endpoints and Running. LeftOut is the number of requests
	// and jobs that were not followed separately, because more than maxOpenRequests were in progress. Their time is in
	// the endpoint whose field Other is true.
	NotListed int    `json:"not_listed"`
	LeftOut   uint64 `json:"left_out"`
	// Fibers counts the fibers that waited when ddtop last read them. It is null if they were not read.
	Fibers *StatFibers `json:"fibers"`
	enough
}

// StatFibers counts the fibers that wait.
type StatFibers struct {
	// Waiting is the number of known fibers that wait. Requests is how many of them work for a request or a job.
	Waiting  int `json:"waiting"`
	Requests int `json:"requests"`
	// AgeNS is how long ago ddtop began to read the fibers, in ns. LookNS is how long the read took, in ns. Cut is set
	// if there may be more fibers, because ddtop stopped before it had read all.
	AgeNS  int64 `json:"age_ns"`
	LookNS int64 `json:"look_ns"`
	Cut    bool  `json:"cut"`
}

// StatEndpoint is a route or a class of jobs, with the requests or jobs that ddtop saw in the measured time.
type StatEndpoint struct {
	// Kind is "request" or "job". It is "none" in the entry that is the sum of all endpoints that are not listed
	// (Other). Endpoint is null if the route is not known.
	Kind     string  `json:"kind"`
	Endpoint *string `json:"endpoint"`
	Other    bool    `json:"other"`
	// Ended is the number of requests whose end ddtop saw. Running is the number of requests in progress. PerSecond is
	// Ended divided by the length of the measured time.
	Ended     int     `json:"ended"`
	Running   int     `json:"running"`
	PerSecond float64 `json:"per_second"`
	// AtLeast is true if ddtop missed too many requests. Then Ended and PerSecond are lower bounds, and the quantiles
	// describe only the requests that ddtop saw.
	AtLeast bool `json:"at_least"`
	// Measured is the number of requests whose beginning and end ddtop saw. The quantiles are computed from these
	// requests. LongestNS is the length of the longest of all requests, in ns. If LongestAtLeast is set, LongestNS is a
	// lower bound, because the request has not ended, or ddtop did not see its beginning or its end.
	Measured int64 `json:"measured"`
	P50NS    int64 `json:"p50_ns"`
	P95NS    int64 `json:"p95_ns"`
	P99NS    int64 `json:"p99_ns"`
	MaxNS    int64 `json:"max_ns"`
	// UncertaintyNS is the possible error of each of the lengths above, in ns. ddtop sees a request only at reads of
	// its stack. The request begins and ends at unknown times between two reads.
	UncertaintyNS  int64 `json:"uncertainty_ns"`
	LongestNS      int64 `json:"longest_ns"`
	LongestAtLeast bool  `json:"longest_at_least"`
	// Queued is how long the requests waited before a thread took them. It is null if this time is known for no
	// request.
	Queued *StatQueued `json:"queued"`
	// NS is the time of the endpoint's threads by state. Peers has the time in the state io, split by the peer with
	// which a thread communicates. FiberNS is how long fibers waited for the endpoint's requests while no thread worked
	// for them.
	//
	// BlameNS is how long other threads waited for the GVL while threads of this endpoint held it. It is in ns, added
	// up for the waiting threads. BlameShare is BlameNS divided by all waiting time.
	NS         StatStates     `json:"ns"`
	FiberNS    int64          `json:"fiber_ns"`
	Peers      []StatPeerTime `json:"peers"`
	BlameNS    int64          `json:"blame_ns"`
	BlameShare float64        `json:"blame_share"`
}

// StatQueued describes how long requests waited before a thread took them. Count is the number of requests for which
// this time is known.
type StatQueued struct {
	Count int64 `json:"count"`
	P50NS int64 `json:"p50_ns"`
	P95NS int64 `json:"p95_ns"`
	MaxNS int64 `json:"max_ns"`
}

// QueuedOf describes how long requests waited for a thread. h is the histogram of these waits. QueuedOf returns nil if
// h is empty.
func QueuedOf(h *gvl.Histogram) *StatQueued {
	n, longest := h.Count()
	if n == 0 {
		return nil
	}
	return &StatQueued{Count: n, P50NS: h.Quantile(.5), P95NS: h.Quantile(.95), MaxNS: longest}
}

// StatPeerTime is how long threads waited for a peer, such as a database, in the state io. Peer has the same keys as in
// a dump.
type StatPeerTime struct {
	Peer map[string]any `json:"peer"`
	Name string         `json:"name"`
	NS   int64          `json:"ns"`
}

// StatServing is the request or job for which a thread works.
type StatServing struct {
	Kind     string  `json:"kind"`
	Endpoint *string `json:"endpoint"`
	// Number is unique within a run of ddtop. AgeNS is how long the request has been in progress. If AtLeast is set,
	// AgeNS is a lower bound. Otherwise its possible error is UncertaintyNS, because the request began between two
	// reads of its thread.
	//
	// QueuedNS is how long the request or job waited before a thread took it, as the load balancer or the job's queue
	// reports. It is null if it is not known.
	Number        sampler.WorkNumber `json:"number"`
	AgeNS         int64              `json:"age_ns"`
	AtLeast       bool               `json:"at_least"`
	UncertaintyNS int64              `json:"uncertainty_ns"`
	QueuedNS      *int64             `json:"queued_ns"`
	// Values is the request's path and query, or the job's arguments. It is null unless the user has allowed ddtop to
	// read values (--values).
	Values *string `json:"values"`
	// Statement is the query that the request or job sends to a database or to another service. Exception is the
	// exception that the request or job handles.
	Statement *string `json:"statement"`
	Exception *string `json:"exception"`
	// Span and RootSpan are the IDs of the spans that the program's tracer made for the request, as decimal numbers.
	Span     *string `json:"span"`
	RootSpan *string `json:"root_span"`
}

// StatRequest is a request or job that was in progress at the end of the measured time.
type StatRequest struct {
	StatServing
	Thread sampler.ThreadID `json:"thread"`
	// State is the present state of the request's thread. Words describes the state and the peer as a text. If
	// Suspended is set, the thread works for another request, and State is "".
	State string `json:"state"`
	Words string `json:"words"`
	// Waits can be set only if Suspended is set. If Waits is set, one of the request's fibers waited for something when
	// ddtop last read the fibers. Then Statement and Exception belong to this fiber. FiberNS is how long fibers waited
	// for the request while no thread worked for it.
	Suspended bool           `json:"suspended"`
	Waits     bool           `json:"waits"`
	NS        StatStates     `json:"ns"`
	FiberNS   int64          `json:"fiber_ns"`
	Peers     []StatPeerTime `json:"peers"`
	BlameNS   int64          `json:"blame_ns"`
}

// TextOrNil returns a pointer to a text. It returns nil for an empty text, because "" means that the text is not known.
func TextOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
