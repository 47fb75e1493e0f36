package account

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// Running returns the requests and jobs in progress at the last sample, the oldest first. The caller owns the slice.
func (r *Requests) Running() []Request {
	out := r.now(func(q *openRequest) bool { return !q.hasEnded() })
	sorting.By(out, compareRequests)
	return out
}

// now returns the requests in progress for which fn returns true, as of the last sample.
func (r *Requests) now(fn func(*openRequest) bool) []Request {
	r.stream.SettleLocks()
	more := make(map[*openRequest]*openRequest)
	r.pending(func(q *openRequest, c *requestCharge) {
		p := more[q]
		if p == nil {
			p = &openRequest{Request: Request{PastRequest: PastRequest{NS: q.NS}}, peers: slices.Clone(q.peers)}
			more[q] = p
		}
		p.add(c)
	})
	routes := r.dict.Routes()
	var out []Request
	for _, q := range r.open {
		if !fn(q) {
			continue
		}
		x, peers := q.Request, q.peers
		if p := more[q]; p != nil {
			x.NS, peers = p.NS, p.peers
		}
		x.Peers = r.sumsByPeer(peers)
		x.stands(q, r.nowNS)
		out = append(out, x.named(routes))
	}
	return out
}

// named returns the request x with its endpoint replaced by the route that is known now.
func (x Request) named(routes map[string]string) Request {
	x.Work.Endpoint = keyOf(&x.Work).named(routes).name
	return x
}

// sumsByPeer returns the peers with the most time. Only a limited number of peers have a group of their own. All other
// peers share a group without a name, which is left out of the result.
func (r *Requests) sumsByPeer(sums peerSums) []PeerNS {
	var out []PeerNS
	for _, p := range sums.list() {
		if id := r.groups.list[p.group].ID; id != 0 {
			out = append(out, PeerNS{id, p.ns})
		}
	}
	return out
}

// pending calls fn with each request in progress and the latest part of its time. This part is still pending in the
// stream: the next reading of a stack can change the state of the thread in it (Stream.Pending).
func (r *Requests) pending(fn func(*openRequest, *requestCharge)) {
	one := func(s *requestSlot) func(*gvl.Interval) {
		return func(i *gvl.Interval) {
			q := s.q
			if i.Serving.Work != s.work {
				q = r.open[r.dict.Work(i.Serving.Work).Number]
			}
			if q != nil && i.Serving.Work != 0 {
				c := r.timeCharge(i)
				fn(q, &c)
			}
		}
	}
	for k := range r.slots {
		if s := &r.slots[k]; s.thread != 0 {
			r.stream.Pending(s.thread, one(s))
		}
	}
}

func compareRequests(a, b Request) int {
	return cmp.Or(cmp.Compare(a.FromNS, b.FromNS), cmp.Compare(a.Work.Number, b.Work.Number))
}

// At returns the remembered requests that were in progress at an earlier time, the oldest first. Their figures are as
// of now, or as of the request's end. So NS also includes time after atNS.
func (r *Requests) At(atNS int64) []Request {
	out := r.now(func(q *openRequest) bool { return q.FromNS <= atNS && (!q.hasEnded() || q.awayNS > atNS) })
	r.ended.visit(func(q *PastRequest) {
		if q.FromNS <= atNS && q.ToNS > atNS {
			out = append(out, q.request().named(r.dict.Routes()))
		}
	})
	sorting.By(out, compareRequests)
	return out
}

// Last returns the remembered request with the latest end before a time, or nil.
func (r *Requests) Last(atNS int64) *Request {
	var last Request
	later := func(q *PastRequest) bool {
		return q.ToNS <= atNS && (last.Work.Number == 0 || q.ToNS > last.ToNS)
	}
	r.ended.visit(func(q *PastRequest) {
		if later(q) {
			last = q.request()
		}
	})
	for _, q := range r.now((*openRequest).hasEnded) {
		if later(&q.PastRequest) {
			last = q
		}
	}
	if last.Work.Number == 0 {
		return nil
	}
	last = last.named(r.dict.Routes())
	return &last
}

// Of returns the remembered requests that a thread worked for between two times, the oldest first.
func (r *Requests) Of(thread sampler.ThreadID, fromNS, toNS int64) []Request {
	in := func(q *PastRequest) bool { return q.Thread == thread && q.FromNS <= toNS && q.ToNS >= fromNS }
	out := r.now(func(q *openRequest) bool { return q.Thread == thread })
	out = slices.DeleteFunc(out, func(q Request) bool { return !in(&q.PastRequest) })
	r.ended.visit(func(q *PastRequest) {
		if in(q) {
			out = append(out, q.request().named(r.dict.Routes()))
		}
	})
	sorting.By(out, compareRequests)
	return out
}

// endedRequests has the last requests that ended, in the order in which ddtop saw them end.
type endedRequests struct {
	ring []PastRequest
	next int // the index of the oldest, once ring is full
	at   map[sampler.WorkNumber]int
}

func (e *endedRequests) add(q *PastRequest) {
	if len(e.ring) < maxEndedRequests {
		e.at[q.Work.Number] = len(e.ring)
		e.ring = append(e.ring, *q)
		return
	}
	if old := e.ring[e.next].Work.Number; e.at[old] == e.next {
		delete(e.at, old)
	}
	e.at[q.Work.Number] = e.next
	e.ring[e.next] = *q
	e.next = (e.next + 1) % len(e.ring)
}

func (e *endedRequests) get(n sampler.WorkNumber) *PastRequest {
	if i, ok := e.at[n]; ok {
		return &e.ring[i]
	}
	return nil
}

func (e *endedRequests) visit(fn func(*PastRequest)) {
	for i := range e.ring {
		fn(&e.ring[(e.next+i)%len(e.ring)])
	}
}

// Longest returns the n longest requests and jobs that are remembered, the longest first. It includes a request for
// which no thread works at this moment, even if a thread may return to it. The caller owns the slice.
func (r *Requests) Longest(n int) []Request {
	all := r.now(func(*openRequest) bool { return true })
	r.ended.visit(func(q *PastRequest) { all = append(all, q.request().named(r.dict.Routes())) })
	sorting.By(all, func(x, y Request) int {
		return cmp.Or(cmp.Compare(y.DurationNS(), x.DurationNS()), compareRequests(x, y))
	})
	return slices.Clone(all[:min(n, len(all))])
}
