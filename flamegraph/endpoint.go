package flamegraph

import (
	"cmp"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxEndpoints limits how many routes and classes of jobs get their own EndpointID. All further ones share the
	// EndpointID 0.
	maxEndpoints = 1024
	// maxSpans limits how many pairs of an endpoint and a span get their own EndpointID. A later span gets the
	// EndpointID of its endpoint. The same happens when half of the keys of a Rolling are used (Rolling.Crowded), so
	// that keys remain for the stacks of later spans.
	maxSpans = 1 << 16
	// worksRemembered is the number of recent requests and jobs in the cache endpoints.recent. It is a power of two.
	worksRemembered = 256
)

// EndpointID identifies a route or a class of jobs. With BySpan it identifies a route or class together with a span.
// It is zero if the thread works for no request or job, or if there are too many routes to separate.
type EndpointID uint32

// NoEndpoint is an EndpointID that no weight has. A filter for NoEndpoint shows nothing.
const NoEndpoint EndpointID = 1<<32 - 1

// Endpoint is a route or a class of jobs. Kind and Name are the fields of sampler.Work. Name is "" while it is not
// known.
type Endpoint struct {
	Kind sampler.WorkKind
	Name string
}

// Served is what an EndpointID identifies. Span, RootSpan and Trace are the fields of sampler.Serving if weights are
// separated by span (BySpan). Otherwise they are 0.
type Served struct {
	Endpoint
	Span, RootSpan uint64
	Trace          [16]byte
}

// endpoints gives each endpoint an EndpointID.
type endpoints struct {
	dict  *sampler.Dictionary // nil if all IDs are 0
	spans bool
	// crowded reports whether there is no room for more spans. If crowded is nil, there is always room.
	crowded func() bool
	ids     map[Served]EndpointID
	// list has the endpoint and span of each ID, indexed by the ID. named is the number of IDs without a span.
	list  []Served
	named int
	// The slice as has, for each EndpointID (the index), the ID that represents it. For example, the route of a request
	// becomes known late. Then the entry of the request's ID is the ID of this route. IDs beyond the slice's end
	// represent themselves. renames is the Dictionary's number of renames when the slice was made.
	as      []EndpointID
	renames uint64
	// recent caches the EndpointIDs of recent requests and jobs. The index is the WorkID modulo the length.
	recent [worksRemembered]struct {
		work       sampler.WorkID
		number     sampler.WorkNumber
		span, root uint64
		trace      [16]byte
		id         EndpointID
	}
}

// begin prepares e to give numbers to endpoints, and also to spans if spans is true.
func (e *endpoints) begin(dict *sampler.Dictionary, spans bool) {
	e.dict, e.spans, e.ids, e.list = dict, spans, make(map[Served]EndpointID), []Served{{}}
}

// of returns the EndpointID of a request or job with its span.
func (e *endpoints) of(s *sampler.Serving) EndpointID {
	span, root, trace := s.Span, s.RootSpan, s.Trace
	if !e.spans || span|root == 0 {
		span, root, trace = 0, 0, [16]byte{}
	}
	if e.dict == nil || s.Work == 0 && span|root == 0 {
		return 0
	}
	at := &e.recent[s.Work%worksRemembered]
	if at.work == s.Work && at.span == span && at.root == root && at.trace == trace && at.id != 0 {
		return at.id
	}
	return e.anew(s)
}

// anew does what endpoints.of does, but without the cache. A name in the cache may be out of date, so anew also finds a
// name that became known after the last call.
func (e *endpoints) anew(s *sampler.Serving) EndpointID {
	span, root, trace := s.Span, s.RootSpan, s.Trace
	if !e.spans || span|root == 0 {
		span, root, trace = 0, 0, [16]byte{}
	}
	at := &e.recent[s.Work%worksRemembered]
	w := e.dict.OwnWork(s.Work)
	if w.Kind == sampler.WorkNone && span|root == 0 {
		return 0
	}
	id := e.number(Served{Endpoint{w.Kind, w.Endpoint}, span, root, trace})
	at.work, at.number, at.span, at.root, at.trace, at.id = s.Work, w.Number, span, root, trace, id
	return id
}

// number returns the EndpointID for an endpoint with its span, and makes an ID if needed. If there is no room for a new
// span, it returns the ID of the endpoint without a span. If there is no room for a new endpoint, it returns zero.
func (e *endpoints) number(k Served) EndpointID {
	id, ok := e.ids[k]
	if !ok && k.Span|k.RootSpan != 0 && (len(e.list)-e.named > maxSpans || e.crowded != nil && e.crowded()) {
		k.Span, k.RootSpan, k.Trace = 0, 0, [16]byte{}
		id, ok = e.ids[k]
	}
	if !ok && (k.Span|k.RootSpan != 0 || e.named < maxEndpoints) {
		id = EndpointID(len(e.list))
		e.ids[k] = id
		e.list = append(e.list, k)
		if k.Span|k.RootSpan == 0 {
			e.named++
		}
	}
	return id
}

// rename updates the table e.as after names have changed. It returns false if there are neither new names nor new IDs.
func (e *endpoints) rename() bool {
	if e.dict == nil || e.dict.Renames() == 0 {
		return false
	}
	if now := e.dict.Renames(); now != e.renames {
		e.renames, e.as = now, nil
	}
	if len(e.as) == len(e.list) {
		return false
	}
	routes := e.dict.Routes()
	for i := len(e.as); i < len(e.list); i++ { // the method number may add to the list
		k, id := e.list[i], EndpointID(i)
		if name := routes[k.Name]; name != "" && k.Kind == sampler.WorkRequest {
			k.Name = name
			id = cmp.Or(e.number(k), id)
		}
		e.as = append(e.as, id)
	}
	return true
}

// standing returns the ID that represents id, according to the table as (endpoints.as).
func standing(as []EndpointID, id EndpointID) EndpointID {
	if int(id) < len(as) {
		return as[id]
	}
	return id
}
