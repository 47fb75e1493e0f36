package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// PeerNS is time in io that waited for a peer, in ns. Peer stands for all connections to the same remote end.
type PeerNS struct {
	Peer sampler.PeerID
	NS   int64
}

// Request is one request or job, as far as it was seen.
type Request struct {
	// Work is what was known of it last.
	Work   sampler.Work
	Thread sampler.ThreadID
	// FromNS and ToNS are the begin and the end, CLOCK_MONOTONIC in ns. Each is the middle between a reading of the
	// thread's stack with the request and one without it. If InProgress is set, the request goes on, and ToNS is the
	// time of the last sample. If AtLeast is set, the request took longer: it had begun before its thread was first
	// read, or it ended while nothing was sampled.
	FromNS, ToNS int64
	InProgress   bool
	AtLeast      bool
	// SlackNS is how much shorter or longer than told the request may be. It is half the time between the two readings
	// at the begin, plus, once the request has ended, half of that at the end. A request that was seen in only one
	// reading took between nothing and the time from the reading before to the reading after.
	SlackNS int64
	// Late is set if the thread's stack was read between BeforeNS and SinceNS of Work without its request, because
	// time was short. Requests that are found this way tend to be long, so they are left out of an endpoint's
	// Durations.
	Late bool
	// NS is the time of the request's threads by state. It is less than ToNS - FromNS if the request began before the
	// measurement, was not sampled for a time, or was suspended. A fiber that does not run has no state.
	NS [gvl.NumStates]int64
	// FiberNS is the time in which a fiber waited for it and no thread worked for it, ns.
	FiberNS int64
	// Peers are the peers for which the request's io waited longest, the longest first, at most maxRequestPeers. If
	// there are more than maxSumPeers, their times can be too small.
	Peers []PeerNS
	// BlameNS is the time, thread·ns, that other threads waited for the GVL while its thread held it for it.
	BlameNS int64
	// The fields from here on describe a request that is in progress at the last sample. If Suspended is set, the
	// thread does not work for the request at this moment. Otherwise Now is the thread's state, and Serving and Stack
	// are what was read with it. If Suspended and Waits are set, one of the thread's fibers waited for the request
	// when that fiber was last looked at. Then Serving and Stack are the fiber's, and FiberAtNS is the time of the
	// look, CLOCK_MONOTONIC in ns.
	Suspended bool
	Waits     bool
	FiberAtNS int64
	Now       gvl.ThreadState
	Serving   sampler.Serving
	Stack     sampler.StackID
}

// DurationNS is its age, or how long it took, in ns, to within SlackNS; with AtLeast it took longer.
func (q *Request) DurationNS() int64 { return max(q.ToNS-q.FromNS, 0) }

// BeginSlackNS is how far the begin may lie before or after FromNS. It is zero if the begin was not seen.
func (q *Request) BeginSlackNS() int64 { return beginSlack(&q.Work) }

func beginSlack(w *sampler.Work) int64 {
	if w.BeforeNS > 0 && w.SinceNS > w.BeforeNS {
		return (w.SinceNS - w.BeforeNS) / 2
	}
	return 0
}

// An Endpoint is a route or a job class over a time. Requests shorter than the time between two readings of stacks may
// be missed. So all figures are of the requests that were seen, and none is the number of requests served.
type Endpoint struct {
	// Kind and Name are those of sampler.Work. Name is empty for requests whose route is not known. If Other is set,
	// this Endpoint is the sum of all endpoints and requests beyond the limits.
	Kind  sampler.WorkKind
	Name  string
	Other bool
	// Ended is how many were seen to end, Running how many go on.
	Ended, Running int
	// Durations are the lengths of the requests that were seen to begin and to end. LongestNS is the length of the
	// longest request of all. LongestAtLeast is set if LongestNS is a lower bound, because that request goes on or its
	// begin or end was not seen.
	Durations      gvl.Histogram
	LongestNS      int64
	LongestAtLeast bool
	// SlackNS bounds Durations: each lies so far above or below on average, the mean of Request.SlackNS.
	SlackNS int64
	// NS is the time of threads by state, Peers that of io by peer (as in Request), BlameNS the time,
	// thread·ns, that others waited for the GVL behind it. FiberNS is Request.FiberNS of all.
	NS      [gvl.NumStates]int64
	FiberNS int64
	Peers   []PeerNS
	BlameNS int64
	// PerSecond is Ended by the length of the stretch of time.
	PerSecond float64
}

// Slack returns how much the lengths of a row may be off, if that is worth telling, and zero otherwise. It is worth
// telling if the bounds of the shortest length, shortestNS, are more than a sixteenth apart.
func Slack(shortestNS, slackNS int64) int64 {
	if _, vague := Length(shortestNS, slackNS); vague {
		return slackNS
	}
	return 0
}

// Slack returns how much the quantiles of Durations and LongestNS may be off, if that is worth telling, and zero
// otherwise.
func (e *Endpoint) Slack() int64 {
	if n, _ := e.Durations.Count(); n > 0 {
		return Slack(e.Durations.Quantile(.5), e.SlackNS)
	}
	if e.LongestAtLeast {
		return 0
	}
	return Slack(e.LongestNS, e.SlackNS)
}

// Length returns how to tell a length that lies between ns-slackNS and ns+slackNS. If these bounds are more than a
// sixteenth apart, Length returns the upper one, and atMost is true. Otherwise it returns ns.
func Length(ns, slackNS int64) (_ int64, atMost bool) {
	if ns > 0 && 2*slackNS > (ns+slackNS)/gvl.PlainParts {
		return ns + slackNS, true
	}
	return ns, false
}

// Seen reports whether a request of it was seen in the time. If none was, its time is the rest of requests that
// ended just before, and no share of it means anything.
func (e *Endpoint) Seen() bool { return e.Other || e.Ended+e.Running > 0 }

// TotalNS is the time of threads in it, ns.
func (e *Endpoint) TotalNS() int64 {
	var sum int64
	for _, ns := range e.NS {
		sum += ns
	}
	return sum
}
