package account

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxEndpoints limits how many endpoints are listed separately over a whole run. maxSecondEndpoints limits how many
	// are listed separately in each second. All further endpoints are added up as "other".
	maxEndpoints       = 1024
	maxSecondEndpoints = 128
	// maxEndpointSeconds limits how many recent seconds have their own sums by endpoint: 15 minutes.
	maxEndpointSeconds = 900
	// maxRequestSeconds limits for how many seconds the time of a request in progress is kept separately. The time is
	// kept because the endpoint is final only when the request has ended. If there are more seconds, the earlier half
	// is charged to the endpoint that is known at that time.
	maxRequestSeconds = 64
)

// endpointKey identifies an endpoint, which is a route or a class of jobs.
type endpointKey struct {
	kind  sampler.WorkKind
	name  string
	other bool
}

// named returns the key k. If the name in k has a route (Dictionary.Routes), the route replaces it.
func (k endpointKey) named(routes map[string]string) endpointKey {
	if k.kind == sampler.WorkRequest {
		k.name = cmp.Or(routes[k.name], k.name)
	}
	return k
}

func keyOf(w *sampler.Work) endpointKey { return endpointKey{kind: w.Kind, name: w.Endpoint} }

// peerTime is how long threads waited in state io for a group of peers (remote ends), in ns.
type peerTime struct {
	group uint32 // the number of the peer's group (PeerGroups): all connections to one remote end
	ns    int64
}

// peerSums is the time in state io by peer, for at most maxSumPeers peers. If there are more, the peers with the least
// time are dropped. A peer with more than 1/maxSumPeers of the total time is never dropped (Misra and Gries, "Finding
// repeated elements", 1982).
type peerSums []peerTime

func (p *peerSums) add(group uint32, ns int64) {
	if group == 0 || ns <= 0 {
		return
	}
	list := *p
	if i := slices.IndexFunc(list, func(x peerTime) bool { return x.group == group }); i >= 0 {
		list[i].ns += ns
		return
	}
	if len(list) >= maxSumPeers {
		less := ns
		for i := range list {
			less = min(less, list[i].ns)
		}
		for i := range list {
			list[i].ns -= less
		}
		if ns -= less; ns == 0 {
			*p = slices.DeleteFunc(list, func(x peerTime) bool { return x.ns == 0 })
			return
		}
		list = slices.DeleteFunc(list, func(x peerTime) bool { return x.ns == 0 })
	}
	*p = append(list, peerTime{group, ns})
}

func (p *peerSums) merge(o peerSums) {
	for i := range o {
		p.add(o[i].group, o[i].ns)
	}
}

func (p peerSums) list() []peerTime {
	if len(p) == 0 {
		return nil
	}
	out := slices.Clone(p)
	sorting.StableBy(out, func(a, b peerTime) int { return cmp.Compare(b.ns, a.ns) })
	return out[:min(len(out), maxRequestPeers)]
}

// endpointSecond is the time that threads spent for one endpoint, or one request, in one second.
type endpointSecond struct {
	at      int64
	ns      [gvl.NumStates]int64
	peers   peerSums
	blameNS int64
	fiberNS int64
}

func (s *endpointSecond) add(c *requestCharge, ns int64) {
	if c.waiters > 0 {
		s.blameNS += c.waiters * ns
		return
	}
	if c.fiber {
		s.fiberNS += ns
		return
	}
	s.ns[c.state] += ns
	s.peers.add(c.peer, ns)
}

func (s *endpointSecond) merge(o *endpointSecond) {
	for i, ns := range o.ns {
		s.ns[i] += ns
	}
	s.peers.merge(o.peers)
	s.blameNS += o.blameNS
	s.fiberNS += o.fiberNS
}

// bySecond divides a charge at the borders of seconds, and calls fn with each part. There are at most maxRequestSeconds
// parts. If the charge covers more seconds, the first part has all of the earlier time.
func (c requestCharge) bySecond(fn func(second int64, part *requestCharge)) {
	part := c
	last := (c.toNS - 1) / 1e9
	for second := max(c.fromNS/1e9, last-maxRequestSeconds+1); part.fromNS < c.toNS; second++ {
		part.toNS = min(c.toNS, (second+1)*1e9)
		fn(second, &part)
		part.fromNS = part.toNS
	}
}

// secondOf returns the sums of one second of a request.
func (r *Requests) secondOf(q *openRequest, second int64) *endpointSecond {
	if len(q.seconds) >= maxRequestSeconds {
		n := maxRequestSeconds / 2
		for i := range q.seconds[:n] {
			r.endpoints.add(keyOf(&q.Work), &q.seconds[i])
		}
		q.seconds = slices.Delete(q.seconds, 0, n)
	}
	i, ok := slices.BinarySearchFunc(q.seconds, second, func(s endpointSecond, at int64) int { return cmp.Compare(s.at, at) })
	if !ok {
		q.seconds = slices.Insert(q.seconds, i, endpointSecond{at: second})
	}
	return &q.seconds[i]
}

// endpointSum has the figures of one endpoint, summed up over its requests.
type endpointSum struct {
	endpointSecond
	ended, running int
	brief          int // how many of the ended requests were brief (PastRequest.brief)
	durations      gvl.Histogram
	longestNS      int64
	longestAtLeast bool
	slackNS        int64 // the sum of the possible errors of all durations
	queued         gvl.Histogram
}

func (s *endpointSum) seen(q *PastRequest) {
	if ns := q.Work.QueuedNS; ns > 0 {
		s.queued.Add(ns)
	}
	if q.InProgress {
		s.running++
	} else {
		s.ended++
		if q.brief() {
			s.brief++
		}
		if !q.AtLeast && !q.Late {
			s.durations.Add(q.DurationNS())
			s.slackNS += q.SlackNS
		}
	}
	if ns := q.DurationNS(); q.AtLeast || q.InProgress {
		s.longest(max(ns-q.SlackNS, 0), true)
	} else {
		s.longest(ns, false)
	}
}

func (s *endpointSum) longest(ns int64, atLeast bool) {
	if ns > s.longestNS || ns == s.longestNS && atLeast {
		s.longestNS, s.longestAtLeast = ns, atLeast
	}
}

func (s *endpointSum) merge(o *endpointSum) {
	s.endpointSecond.merge(&o.endpointSecond)
	s.ended += o.ended
	s.brief += o.brief
	s.running += o.running
	s.durations.Merge(&o.durations)
	s.queued.Merge(&o.queued)
	s.slackNS += o.slackNS
	s.longest(o.longestNS, o.longestAtLeast)
}

// endpointTable has the sums of all endpoints in one second, or in the whole run.
type endpointTable struct {
	second int64
	sums   map[endpointKey]*endpointSum
	begun  begunCount
	// routes replaces names by routes (Dictionary.Routes). It is nil in a table to which time is still added, because
	// routes can still change.
	routes map[string]string
}

// sum returns the sum of an endpoint, and adds it if it is new. If the table already has limit endpoints, a new
// endpoint's sum is "other".
func (t *endpointTable) sum(k endpointKey, limit int) *endpointSum {
	k = k.named(t.routes)
	s := t.sums[k]
	if other := (endpointKey{other: true}); s == nil && k != other && len(t.sums) >= limit {
		if len(t.sums) > limit || t.sums[other] == nil {
			k = other
			s = t.sums[k]
		}
	}
	if s == nil {
		s = new(endpointSum)
		t.sums[k] = s
	}
	return s
}

// endpointSums has the sums of endpoints, over the whole run and for each recent second.
type endpointSums struct {
	run    endpointTable
	recent []endpointTable
}

func newEndpointSums(keepNS int64) endpointSums {
	e := endpointSums{run: endpointTable{sums: make(map[endpointKey]*endpointSum)}}
	e.recent = make([]endpointTable, min(keepNS/1e9+2, maxEndpointSeconds))
	for i := range e.recent {
		e.recent[i].second = -1
	}
	return e
}

// recentOf returns the table of a second. It returns nil if the second is so old that its table was dropped.
func (e *endpointSums) recentOf(second int64) *endpointTable {
	t := &e.recent[second%int64(len(e.recent))]
	if t.second > second {
		return nil
	}
	if t.second < second || t.sums == nil {
		t.second, t.sums, t.begun = second, make(map[endpointKey]*endpointSum), begunCount{}
	}
	return t
}

func (e *endpointSums) add(k endpointKey, s *endpointSecond) {
	e.run.sum(k, maxEndpoints).endpointSecond.merge(s)
	if t := e.recentOf(s.at); t != nil {
		t.sum(k, maxSecondEndpoints).endpointSecond.merge(s)
	}
}

func (e *endpointSums) charge(k endpointKey, c *requestCharge) {
	c.bySecond(func(second int64, part *requestCharge) {
		s := endpointSecond{at: second}
		s.add(part, part.toNS-part.fromNS)
		e.add(k, &s)
	})
}

// settle charges the time of a request that has ended to its endpoint.
func (e *endpointSums) settle(q *openRequest) {
	k := keyOf(&q.Work)
	for i := range q.seconds {
		e.add(k, &q.seconds[i])
	}
	e.run.sum(k, maxEndpoints).seen(&q.PastRequest)
	if t := e.recentOf(q.ToNS / 1e9); t != nil {
		t.sum(k, maxSecondEndpoints).seen(&q.PastRequest)
	}
}

// ToldSince returns the earliest time in a period for which Endpoints still has sums. Older sums are dropped. The
// result all is true if Endpoints has sums for the whole period. If a period covers all samples, it is always true.
func (r *Requests) ToldSince(fromNS, toNS int64) (sinceNS int64, all bool) {
	fromNS = max(fromNS, r.firstNS)
	kept := (r.nowNS/1e9 - int64(len(r.endpoints.recent)) + 1) * 1e9
	if fromNS >= kept || fromNS <= r.firstNS && toNS >= r.nowNS {
		return fromNS, true
	}
	return kept, false
}

// EndpointsOf returns the endpoints of the last windowNS before the last sample, but not from before fromNS. spanNS is
// the length of the time that this list covers.
func (r *Requests) EndpointsOf(windowNS, fromNS int64) (list []Endpoint, spanNS int64) {
	from := max((r.nowNS/1e9-windowNS/1e9)*1e9, fromNS/1e9*1e9, r.firstNS)
	return r.Endpoints(from, r.nowNS), r.nowNS - from
}

// Endpoints returns the endpoints between two times, rounded outwards to whole seconds. If fromNS is 0, the period
// begins with the first sample. The endpoint with the most time comes first. If endpoints are left out, the last
// element is their sum. The caller owns the slice.
func (r *Requests) Endpoints(fromNS, toNS int64) []Endpoint {
	r.stream.SettleLocks()
	whole := fromNS <= r.firstNS && toNS >= r.nowNS
	fromNS, toNS = max(fromNS, r.firstNS), min(toNS, r.nowNS)
	first, last := fromNS/1e9, toNS/1e9
	all := endpointTable{sums: make(map[endpointKey]*endpointSum), routes: r.dict.Routes()}
	if whole {
		all.begun = r.endpoints.run.begun
		for k, s := range r.endpoints.run.sums {
			all.sum(k, maxEndpoints).merge(s)
		}
	} else {
		fromNS, toNS = max(first*1e9, r.firstNS), min((last+1)*1e9, r.nowNS)
		for i := range r.endpoints.recent {
			if t := &r.endpoints.recent[i]; t.second >= first && t.second <= last {
				all.begun.merge(t.begun)
				for k, s := range t.sums {
					all.sum(k, maxEndpoints).merge(s)
				}
			}
		}
	}
	r.addOpen(&all, first, last, toNS)
	if !whole {
		r.ended.visit(func(q *PastRequest) {
			if q.FromNS <= toNS && q.ToNS/1e9 > last {
				x := *q
				x.ToNS, x.InProgress = toNS, true
				all.sum(keyOf(&x.Work), maxEndpoints).seen(&x)
			}
		})
	}
	out := make([]Endpoint, 0, len(all.sums))
	for k, s := range all.sums {
		if s.ended+s.running == 0 && s.ns == [gvl.NumStates]int64{} && s.blameNS == 0 && s.fiberNS == 0 {
			continue
		}
		e := Endpoint{
			Kind: k.kind, Name: k.name, Other: k.other, Ended: s.ended, brief: s.brief, Running: s.running, Durations: s.durations, Queued: s.queued, LongestNS: s.longestNS,
			LongestAtLeast: s.longestAtLeast, NS: s.ns, Peers: r.sumsByPeer(s.peers), BlameNS: s.blameNS, FiberNS: s.fiberNS,
		}
		if n, _ := s.durations.Count(); n > 0 {
			e.SlackNS = s.slackNS / n
		}
		if toNS > fromNS {
			e.PerSecond = float64(e.Ended) / (float64(toNS-fromNS) / 1e9)
		}
		out = append(out, e)
	}
	all.begun.mark(out)
	sorting.By(out, compareEndpoints)
	return out
}

// addOpen adds requests to the table in the parameter all: the requests that are not charged to an endpoint yet. It
// adds their time in the seconds from first to last, and counts the requests that had begun by toNS.
func (r *Requests) addOpen(all *endpointTable, first, last, toNS int64) {
	for _, q := range r.open {
		s := all.sum(keyOf(&q.Work), maxEndpoints)
		for i := range q.seconds {
			if at := q.seconds[i].at; at >= first && at <= last {
				s.endpointSecond.merge(&q.seconds[i])
			}
		}
		x := q.Request
		x.stands(q, toNS)
		if x.FromNS <= toNS && (x.InProgress || x.ToNS/1e9 >= first) {
			s.seen(&x.PastRequest)
		}
		if c, ok := q.waits(toNS); ok {
			c.bySecond(func(second int64, part *requestCharge) {
				if second >= first && second <= last {
					s.endpointSecond.add(part, part.toNS-part.fromNS)
				}
			})
		}
	}
	r.pending(func(q *openRequest, c *requestCharge) {
		c.bySecond(func(second int64, part *requestCharge) {
			if second >= first && second <= last {
				all.sum(keyOf(&q.Work), maxEndpoints).endpointSecond.add(part, part.toNS-part.fromNS)
			}
		})
	})
}

func compareEndpoints(a, b Endpoint) int {
	if a.Other != b.Other {
		if a.Other {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.TotalNS()+b.FiberNS, a.TotalNS()+a.FiberNS), cmp.Compare(b.Ended, a.Ended), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}
