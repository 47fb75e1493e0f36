package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// PeerNS is how long a request waited in state io for a peer. Peer represents all connections to one remote end.
type PeerNS struct {
	Peer sampler.PeerID
	NS   int64
}

// A Request is a request or a job, in progress or ended.
type Request struct {
	PastRequest
	// The fields below describe a request in progress, as of the last sample. If Suspended is set, its thread works for
	// other requests at this moment. Otherwise Now is the thread's state, and Serving and Stack were read at the same
	// time. Waits is set if one of the thread's fibers waited for the request at FiberAtNS (CLOCK_MONOTONIC in ns). In
	// that case, Serving and Stack belong to this fiber.
	Suspended bool
	Waits     bool
	FiberAtNS int64
	Now       gvl.ThreadState
	Serving   sampler.Serving
	Stack     sampler.StackID
}

// A PastRequest is the data about a request that is kept after its end.
type PastRequest struct {
	// Work is what ddtop knew about the request or job when it was last read.
	Work   sampler.Work
	Thread sampler.ThreadID
	// FromNS and ToNS are the beginning and the end, CLOCK_MONOTONIC in ns. Each is the middle between two readings of
	// the thread's stack: one with the request and one without it. If InProgress is set, ToNS is the time of the last
	// sample. AtLeast is set if the request may have lasted longer than ToNS − FromNS, for one of three reasons. It may
	// have begun before its thread was first read. It may have ended in a gap between samples. Or the samples since
	// ToNS could not show whether it has ended.
	FromNS, ToNS int64
	InProgress   bool
	AtLeast      bool
	// SlackNS is how much shorter or longer than measured the request may be, in ns. It is half of the time between the
	// two readings around the request's beginning, plus the same for its end if it has ended.
	SlackNS int64
	// Late is set if the request may have begun much earlier than ddtop found it. In this case, a sample between
	// BeforeNS and SinceNS of Work read the thread's stack, but had no time to search it for requests. Requests found
	// so late tend to be long, so they are left out of an endpoint's Durations. Late is also set if the last samples
	// before the end could not show whether the request has ended.
	Late bool
	// NS is the time of the request's threads by state. Three kinds of time are left out: time before the measurement,
	// time without samples, and time in which the request was suspended. A suspended request runs on no thread, so it
	// has no state.
	NS [gvl.NumStates]int64
	// FiberNS is the time in which a fiber waited for the request and no thread worked for the request, in ns.
	FiberNS int64
	// Peers are the peers for which the request waited longest in state io, the longest first, at most maxRequestPeers.
	// If the request waited for more than maxSumPeers peers, their times may be too low.
	Peers []PeerNS
	// BlameNS is how long threads waited for the GVL while the request's thread held it, in ns, added up over the
	// waiting threads.
	BlameNS int64
}

func (q *PastRequest) request() Request { return Request{PastRequest: *q} }

// DurationNS returns how long the request lasted, in ns. The error is at most SlackNS. If AtLeast is set, the result is
// a lower bound.
func (q *PastRequest) DurationNS() int64 { return max(q.ToNS-q.FromNS, 0) }

// BeginSlackNS returns the possible error of FromNS, in ns: how far before or after it the request may have begun. It
// is zero if the beginning was not seen.
func (q *PastRequest) BeginSlackNS() int64 { return beginSlack(&q.Work) }

func beginSlack(w *sampler.Work) int64 {
	if w.BeforeNS > 0 && w.SinceNS > w.BeforeNS {
		return (w.SinceNS - w.BeforeNS) / 2
	}
	return 0
}

// An Endpoint is a route or a class of jobs, with its figures in a period. ddtop may miss requests that are shorter
// than the time between two readings of stacks. So all figures describe only the requests that were seen. AtLeast is
// set if too many requests were missed.
type Endpoint struct {
	// Kind and Name are as in sampler.Work. If Other is set, this Endpoint is the sum of all endpoints and requests
	// for which there was no room.
	Kind  sampler.WorkKind
	Name  string
	Other bool
	// Ended is the number of requests that were seen to end. Running is the number of requests in progress.
	Ended, Running int
	// Durations are the lengths of the requests whose beginning and end were seen. LongestNS is the length of the
	// longest request. It is a lower bound if LongestAtLeast is set.
	Durations gvl.Histogram
	// Queued has the times for which the requests waited before a thread took them. Requests without the header
	// X-Request-Start or X-Queue-Start are not included, because their time is not known.
	Queued         gvl.Histogram
	LongestNS      int64
	LongestAtLeast bool
	// SlackNS is the mean possible error of the lengths in Durations, in ns (PastRequest.SlackNS).
	SlackNS int64
	// NS, FiberNS, Peers and BlameNS are the sums of these fields over the endpoint's requests.
	NS      [gvl.NumStates]int64
	FiberNS int64
	Peers   []PeerNS
	BlameNS int64
	// PerSecond is Ended divided by the length of the period. If AtLeast is set, too many requests were missed: Ended
	// and PerSecond are lower bounds, and Durations describes only the requests that were seen.
	PerSecond float64
	AtLeast   bool
	brief     int        // how many ended requests were brief
	begun     begunCount // of all endpoints together
}

// Slack returns slackNS, the possible error of several lengths, or zero if texts need not show it. shortestNS is the
// shortest of the lengths, for which the error matters most. Texts need not show the error if the two bounds of the
// shortest length differ by less than a sixteenth.
func Slack(shortestNS, slackNS int64) int64 {
	if _, vague := Length(shortestNS, slackNS); vague {
		return slackNS
	}
	return 0
}

// Slack returns the possible error of LongestNS and of quantiles of Durations. It returns zero if the error is too
// small to be shown.
func (e *Endpoint) Slack() int64 {
	if n, _ := e.Durations.Count(); n > 0 {
		return Slack(e.Durations.Quantile(.5), e.SlackNS)
	}
	if e.LongestAtLeast {
		return 0
	}
	return Slack(e.LongestNS, e.SlackNS)
}

// Length returns the number that texts show for a length between ns-slackNS and ns+slackNS. If these bounds differ by
// more than a sixteenth, it returns the upper bound, and atMost is true.
func Length(ns, slackNS int64) (_ int64, atMost bool) {
	if ns > 0 && 2*slackNS > (ns+slackNS)/gvl.PlainParts {
		return ns + slackNS, true
	}
	return ns, false
}

// Seen reports whether a request of the endpoint was seen in this period. If not, the endpoint's NS is the remaining
// time of requests that ended just before the period. A percentage of this NS would be misleading.
func (e *Endpoint) Seen() bool { return e.Other || e.Ended+e.Running > 0 }

func (e *Endpoint) TotalNS() int64 {
	var sum int64
	for _, ns := range e.NS {
		sum += ns
	}
	return sum
}
