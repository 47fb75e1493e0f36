package findings

import (
	"math"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// endpointShare is a share of a total: a finding names an endpoint only if it has at least this share.
	endpointShare = .5
	// maxToldStatement limits the characters of a statement in a finding's text.
	maxToldStatement = 120
)

// then adds a function that completes the hit's text (hit.tell). Only hits that a user will see are completed, because
// this takes time.
func (h *hit) then(tell func(*hit)) {
	before := h.tell
	h.tell = func(h *hit) {
		if before != nil {
			before(h)
		}
		tell(h)
	}
}

// endpoints returns the endpoints of the last seconds, and the length ns of this time. The time can be a little longer
// than the window, because the texts are completed a little after the sums of the window are computed.
func (w *window) endpoints() (list []account.Endpoint, ns int64) {
	r := w.requests
	if r == nil {
		return nil, 0
	}
	return r.EndpointsOf(findingsWindowNS, w.fromNS)
}

// mostly returns the endpoint with the largest part of total, and its share. The parameter of is a function that
// returns an endpoint's part of total. The endpoint is nil if the share is below endpointShare.
func mostly(list []account.Endpoint, total int64, of func(*account.Endpoint) int64) (*account.Endpoint, float64) {
	var most *account.Endpoint
	for i := range list {
		if e := &list[i]; !e.Other && (most == nil || of(e) > of(most)) {
			most = e
		}
	}
	if most == nil || most.Name == "" || of(most) == 0 {
		return nil, 0
	}
	share := min(gvl.Ratio(of(most), total), 1)
	if share < endpointShare {
		return nil, 0
	}
	return most, share
}

// waitsMuch is a share of an endpoint's time. If waits for the GVL take at least this share, the endpoint is named as a
// victim.
const waitsMuch = .3

// whoTakesGVL adds two endpoints to the text. The first endpoint causes most of the waiting for the GVL, and the text
// gives its share of the GVL. The second endpoint waits most for the GVL.
func (w *window) whoTakesGVL(h *hit) {
	list, length := w.endpoints()
	if len(list) == 0 {
		return
	}
	all := w.blame.Top(0, account.ByStack, w.blamed())
	e, _ := mostly(list, all.TotalNS, func(e *account.Endpoint) int64 { return e.BlameNS })
	if e == nil {
		return
	}
	held := e.NS[gvl.Running] + e.NS[gvl.Stalled] + e.NS[gvl.GC]
	h.endpoint = e.Name
	h.text += "; " + e.Name + " " + tense("takes", "took") + " " + units.RoundPercent(min(gvl.Ratio(held, length), 1)) + " of the GVL"
	var v *account.Endpoint
	for i := range list {
		if x := &list[i]; x != e && x.Name != "" && (v == nil || x.NS[gvl.Waiting] > v.NS[gvl.Waiting]) {
			v = x
		}
	}
	if v == nil || e.NS[gvl.Waiting] > v.NS[gvl.Waiting] {
		return // the requests of this endpoint wait mostly for each other
	}
	if waits := gvl.Ratio(v.NS[gvl.Waiting], v.TotalNS()); waits >= waitsMuch {
		h.text += ", " + v.Name + " " + tenseWaits + " " + units.RoundPercent(waits) + " of its time"
	}
}

// callsMany is the number of calls per request from which on the number itself is the problem. The calls are to one
// peer group (all connections to one remote end). With fewer calls, the problem is the length of each call.
const callsMany = 10

// asker returns the endpoint that waits most for a peer group (all connections to one remote end). ns is the time of
// all waits for the group. share is this endpoint's part of ns, and calls its mean number of calls per request. e is
// nil if share is below endpointShare.
func asker(w *window, group uint32, ns int64) (e *account.Endpoint, share, calls float64) {
	list, length := w.endpoints()
	e, share = mostly(list, int64(w.share(ns)*float64(length)), func(e *account.Endpoint) int64 {
		var sum int64
		for _, p := range e.Peers {
			if w.ev.peers.GroupOf(p.Peer) == group {
				sum += p.NS
			}
		}
		return sum
	})
	if ended := w.calls[group]; e != nil && ended != nil {
		n, _ := ended.Longest.Count()
		calls = share * float64(n) / requestsOf(e)
	}
	return e, share, calls
}

// requestsOf returns how many requests of an endpoint fit into the window: its time divided by a typical duration. So
// if only a part of a request is in the window, only this part is counted. The result is at least 1 and at most the
// number of requests.
func requestsOf(e *account.Endpoint) float64 {
	n := float64(e.Ended + e.Running)
	if typical := e.Durations.Quantile(.5); typical > 0 {
		n = min(n, float64(e.TotalNS())/float64(typical))
	}
	return max(n, 1)
}

// whoAsks adds to the text the endpoint that waits most for a peer group (all connections to one remote end). It also
// adds a statement that a thread waits for now. ns is the time of all waits for the group.
func (w *window) whoAsks(h *hit, group uint32, ns int64) {
	e, share, calls := asker(w, group, ns)
	if e != nil {
		h.endpoint = e.Name
		h.text += "; " + units.RoundPercent(share) + " of that for " + e.Name
	}
	if calls >= callsMany && !w.connecting(group, ns) {
		each := "request"
		if e.Kind == sampler.WorkJob {
			each = "job"
		}
		h.title = "Many calls per " + each
		h.text = "about " + itoa(w.ev.steadyCalls(group, calls)) + " calls in each " + each + ": " + h.text
		h.next = "ask for all of it in one call (a batch, preloading, a cache); " + h.next
	}
	if len(h.threads) == 0 {
		return
	}
	if asked := w.statement(h.threads[0]); asked != "" {
		h.next = tense("it asks now: ", "it asked: ") + asked + "; " + h.next
	}
}

// steadyCalls returns the number of calls for a text. It prevents a flickering text: it returns the last number again
// until calls differs from it by more than explainsBand, a quarter.
func (c *collector) steadyCalls(group uint32, calls float64) int64 {
	if c.toldGroup != group || math.Abs(calls-c.toldCalls) > explainsBand*c.toldCalls {
		c.toldGroup, c.toldCalls = group, calls
	}
	return int64(c.toldCalls)
}

// servingOf returns the request or job that a thread works on.
func (w *moment) servingOf(id sampler.ThreadID) sampler.Serving {
	if i, ok := w.threadOf[id]; ok && i < len(w.s.Threads) {
		return w.s.Threads[i].Serving
	}
	return sampler.Serving{}
}

// statement returns the statement that a thread waits for, such as an SQL query, cut to maxToldStatement.
func (w *moment) statement(id sampler.ThreadID) string {
	if w.dict == nil {
		return ""
	}
	text := []rune(w.dict.Statement(w.servingOf(id).Statement))
	if len(text) > maxToldStatement {
		return string(text[:maxToldStatement-1]) + "…"
	}
	return string(text)
}

// endpointOf returns the endpoint that a thread works for now, or "".
func (w *moment) endpointOf(id sampler.ThreadID) string {
	if w.dict == nil {
		return ""
	}
	return w.dict.Work(w.servingOf(id).Work).Endpoint
}

// nameRoute adds to the text the endpoint of most of the hit's threads, unless the text already names an endpoint.
func (w *window) nameRoute(h *hit) {
	if h.endpoint != "" {
		return
	}
	if h.endpoint = w.routeOf(h.threads); h.endpoint != "" {
		lead := ", for "
		if len(h.threads) > 1 {
			lead = "; most of these threads " + tense("work", "worked") + " for "
		}
		h.text += lead + h.endpoint
	}
}

// routeOf returns the endpoint for which at least three of four threads work now, or "".
func (w *moment) routeOf(ids []sampler.ThreadID) string {
	routes := make(map[string]int64)
	for _, id := range ids {
		if name := w.endpointOf(id); name != "" {
			routes[name]++
		}
	}
	if name, n := gvl.TopKey(routes); 4*n >= 3*int64(len(ids)) {
		return name
	}
	return ""
}

// serves adds to the text the endpoint for which the thread to blame works now: ", for GET orders#index".
func (w *moment) serves(h *hit, id sampler.ThreadID) {
	if name := w.endpointOf(id); name != "" {
		h.endpoint = name
		h.text += ", for " + name
	}
}
