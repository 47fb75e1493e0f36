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
	// FromNS and ToNS are when it began and ended, CLOCK_MONOTONIC in ns, each the middle between the reading of the thread's stack
	// without it and the one with it. InProgress: it goes on, and ToNS is the time of the last sample. AtLeast: it took longer than
	// that, since it had begun before its thread was looked at first, or ended while nothing was sampled.
	FromNS, ToNS int64
	InProgress   bool
	AtLeast      bool
	// SlackNS bounds its length: it lies so far above or below at most. It is half the time between the readings at its begin, and where it has
	// ended half of that at its end. A request seen in one reading alone took something between none and the time from the reading
	// before to that after it.
	SlackNS int64
	// Late: its thread's stack was read between BeforeNS and SinceNS of Work, but not for whom it works, as there was no time for that.
	// Those that are found so are the longer ones: they are not among an endpoint's Durations.
	Late bool
	// NS is the time of its threads by state: less than ToNS - FromNS where it began before the measurement, was not sampled,
	// or was suspended (a fiber that is not running has no state).
	NS [gvl.NumStates]int64
	// FiberNS is the time in which a fiber waited for it and no thread worked for it, ns.
	FiberNS int64
	// Peers are those that its io waited for longest, the longest first, maxRequestPeers at most. Where there are more than
	// maxSumPeers, what is said of each can be too little.
	Peers []PeerNS
	// BlameNS is the time, thread·ns, that other threads waited for the GVL while its thread held it for it.
	BlameNS int64
	// Of one in progress at the last sample: Suspended, its thread does not work for it right now; else Now is the thread's state,
	// Serving and Stack what was read of it. With Suspended, Waits says that one of the thread's fibers waited for it in the last look
	// at them that had it, at FiberAtNS, CLOCK_MONOTONIC in ns: Serving and Stack are that fiber's.
	Suspended bool
	Waits     bool
	FiberAtNS int64
	Now       gvl.ThreadState
	Serving   sampler.Serving
	Stack     sampler.StackID
}

// DurationNS is its age, or how long it took, in ns, to within SlackNS; with AtLeast it took longer.
func (q *Request) DurationNS() int64 { return max(q.ToNS-q.FromNS, 0) }

// BeginSlackNS bounds FromNS: the begin lies so far before or behind it at most; 0 where it is not known since when it has been going on.
func (q *Request) BeginSlackNS() int64 { return beginSlack(&q.Work) }

func beginSlack(w *sampler.Work) int64 {
	if w.BeforeNS > 0 && w.SinceNS > w.BeforeNS {
		return (w.SinceNS - w.BeforeNS) / 2
	}
	return 0
}

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
	// Durations are of those seen to begin and to end. LongestNS is the longest of all; LongestAtLeast: it is a lower bound, for that one
	// goes on, or one of its ends was not seen.
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

// Slack returns by how much the lengths of a row may be off, if that is told: the shortest of them is shortestNS, and its bounds are more than a
// sixteenth apart. It is zero otherwise.
func Slack(shortestNS, slackNS int64) int64 {
	if _, vague := Length(shortestNS, slackNS); vague {
		return slackNS
	}
	return 0
}

// Slack returns by how much the quantiles of Durations and LongestNS may be off, if that is told.
func (e *Endpoint) Slack() int64 {
	if n, _ := e.Durations.Count(); n > 0 {
		return Slack(e.Durations.Quantile(.5), e.SlackNS)
	}
	if e.LongestAtLeast {
		return 0
	}
	return Slack(e.LongestNS, e.SlackNS)
}

// Length returns how a length is told that lies between ns-slackNS and ns+slackNS; atMost: the two bounds are more than a sixteenth apart, so
// that it is told as an upper bound.
func Length(ns, slackNS int64) (_ int64, atMost bool) {
	if ns > 0 && 2*slackNS > (ns+slackNS)/gvl.PlainParts {
		return ns + slackNS, true
	}
	return ns, false
}

// TotalNS is the time of threads in it, ns.
func (e *Endpoint) TotalNS() int64 {
	var sum int64
	for _, ns := range e.NS {
		sum += ns
	}
	return sum
}
