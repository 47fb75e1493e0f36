package account

import (
	"slices"
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// maxStatEndpoints limits how many endpoints a Stat lists. They are the endpoints with the most time. maxStatRunning
// limits how many requests in progress it lists. They are the oldest ones.
const (
	maxStatEndpoints = 100
	maxStatRunning   = 500
)

// ServingOf returns what a thread works for at a time, CLOCK_MONOTONIC in ns. ok is false if it works for no request or
// job.
func ServingOf(s sampler.Serving, atNS int64, dict *sampler.Dictionary) (out report.StatServing, ok bool) {
	if s == (sampler.Serving{}) || dict == nil {
		return report.StatServing{}, false
	}
	w := dict.Work(s.Work)
	out = report.StatServing{
		Kind: w.Kind.String(), Endpoint: report.TextOrNil(w.Endpoint), Number: w.Number, Values: report.TextOrNil(w.Values),
		Statement: report.TextOrNil(dict.Statement(s.Statement)), Exception: report.TextOrNil(dict.Exception(s.Exception)),
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

func spanOrNil(id uint64) *string {
	if id == 0 {
		return nil
	}
	s := strconv.FormatUint(id, 10)
	return &s
}

// Stat returns figures about the requests and jobs of the endpoints for which match returns true, or of all endpoints
// if match is nil. waitedNS is the time for which all threads together waited for the GVL.
func (r *Requests) Stat(waitedNS int64, match func(endpoint string) bool) report.StatRequests {
	if match == nil {
		match = func(string) bool { return true }
	}
	out := report.StatRequests{Endpoints: []report.StatEndpoint{}, Running: []report.StatRequest{}, LeftOut: r.leftOut}
	if look, age := r.Fibers(); look != nil {
		out.Fibers = r.statFibers(look, age, match)
	}
	all := slices.DeleteFunc(r.Endpoints(0, r.nowNS), func(e Endpoint) bool { return !match(e.Name) })
	out.AtLeast = AtLeast(all)
	for _, e := range all {
		if !e.Seen() {
			continue
		}
		if len(out.Endpoints) >= maxStatEndpoints && !e.Other {
			out.NotListed++
			continue
		}
		measured, longest := e.Durations.Count()
		out.Endpoints = append(out.Endpoints, report.StatEndpoint{
			Queued: report.QueuedOf(&e.Queued),
			Kind:   e.Kind.String(), Endpoint: report.TextOrNil(e.Name), Other: e.Other, Ended: e.Ended, Running: e.Running, PerSecond: e.PerSecond, AtLeast: e.AtLeast,
			Measured: measured, P50NS: e.Durations.Quantile(.5), P95NS: e.Durations.Quantile(.95), P99NS: e.Durations.Quantile(.99), MaxNS: longest, UncertaintyNS: e.SlackNS,
			LongestNS: e.LongestNS, LongestAtLeast: e.LongestAtLeast, NS: report.StatesOf(e.NS), FiberNS: e.FiberNS, Peers: r.peerTimes(e.Peers), BlameNS: e.BlameNS,
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

// statFibers counts the waiting fibers in a reading. It also counts the requests that these fibers serve, if match
// returns true for the request's endpoint.
func (r *Requests) statFibers(look *sampler.Fibers, ageNS int64, match func(endpoint string) bool) *report.StatFibers {
	out := &report.StatFibers{Waiting: len(look.List), AgeNS: ageNS, LookNS: look.ReadNS, Cut: look.Cut}
	for i := range look.List {
		if w := r.dict.Work(look.List[i].Serving.Work); w.Number != 0 && match(w.Endpoint) {
			out.Requests++
		}
	}
	return out
}

func (r *Requests) statRequest(q *Request) report.StatRequest {
	out := report.StatRequest{Thread: q.Thread, Suspended: q.Suspended, Waits: q.Suspended && q.Waits, NS: report.StatesOf(q.NS), FiberNS: q.FiberNS, Peers: r.peerTimes(q.Peers), BlameNS: q.BlameNS}
	out.StatServing, _ = ServingOf(q.Serving, q.ToNS, r.dict)
	if q.Suspended && !q.Waits {
		// leave out the statement, the exception and the spans, because they are from the time when the fiber last ran
		out.Statement, out.Exception, out.Span, out.RootSpan = nil, nil, nil, nil
	} else if !q.Suspended {
		out.State, out.Words = q.Now.State.String(), gvl.Describe(q.Now, r.dict)
	}
	out.AgeNS, out.AtLeast, out.UncertaintyNS = q.DurationNS(), q.AtLeast, q.SlackNS
	return out
}

func (r *Requests) peerTimes(list []PeerNS) []report.StatPeerTime {
	out := make([]report.StatPeerTime, 0, len(list))
	for _, p := range list {
		peer := r.dict.Peer(p.Peer)
		out = append(out, report.StatPeerTime{Peer: gvl.PeerJSON(peer), Name: gvl.PeerName(peer), NS: p.NS})
	}
	return out
}
