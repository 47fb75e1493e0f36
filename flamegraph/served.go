package flamegraph

import (
	"cmp"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// firstServed is the initial size of the ring of recent requests and jobs (servedCharges.ring). It is a power of
	// two.
	firstServed = 1 << 4
	// maxServed limits how many requests and jobs have weights that can still move to another name. It is a power of
	// two.
	maxServed = 1 << 10
	// maxCharges limits how many weights wait for the final name of their request (7 MB). Beyond this limit, the oldest
	// weights get the name that is known at that time. maxNowCharges is the same limit for ByEndpointNow (1 MB, about
	// four seconds of a busy server). Most requests have their final name before their weights reach the limit.
	maxCharges, maxNowCharges = 1 << 16, 1 << 13
	// maxRequestCharges limits how many charges (calls of Sink.Add) of one request are kept.
	maxRequestCharges = 1 << 12
)

// A charge holds the arguments of one call of Sink.Add, for weights of a request.
type charge struct {
	atNS int64
	key  Key
	w    Weights
}

// servedKey identifies a request or job, together with its span if weights are separated by span. If a request has no
// number, work identifies it.
type servedKey struct {
	number     sampler.WorkNumber
	work       sampler.WorkID
	span, root uint64
	trace      [16]byte
}

// servedWork is a request or job whose weights can still move to another name.
type servedWork struct {
	servedKey
	id EndpointID // its ID inside the Collector
	// serving describes the request as it was last seen. The field name is the EndpointID of the name that the request
	// had then.
	serving sampler.Serving
	name    EndpointID
	list    []charge
}

// servedCharges keeps the weights of requests and jobs until their names are known. Until then, Key.Endpoint is a
// number that the Collector gave to the request. When the weights go to the Sinks, Key.Endpoint becomes the EndpointID
// of the request's name.
type servedCharges struct {
	now bool
	// ring has the last requests, indexed by id modulo the length of ring. kept is the number of charges of all
	// requests. While kept exceeds limit, requests are settled in the order of their ids: their weights go to the Sinks
	// (settle). oldest is the last id for which settling was tried.
	ring         []servedWork
	ids          map[servedKey]EndpointID
	last, oldest EndpointID
	kept, limit  int
}

func (x *servedCharges) begin() {
	x.ring, x.ids, x.oldest, x.limit = make([]servedWork, firstServed), make(map[servedKey]EndpointID), 1, maxCharges
}

// get returns the request with an id. It returns nil if another request is now stored at this place of the ring.
func (x *servedCharges) get(id EndpointID) *servedWork {
	if id == 0 || x.at(id).id != id {
		return nil
	}
	return x.at(id)
}

// at returns the place in the ring for an id. The request that is stored there may have another id.
func (x *servedCharges) at(id EndpointID) *servedWork { return &x.ring[id%EndpointID(len(x.ring))] }

// grow doubles the ring, up to maxServed requests.
func (x *servedCharges) grow() {
	if len(x.ring) >= maxServed {
		return
	}
	old := x.ring
	x.ring = make([]servedWork, 2*len(old))
	for _, w := range old {
		if w.id != 0 {
			*x.at(w.id) = w
		}
	}
}

// request returns the Collector's id for the request or job that a thread works for, and stores its name.
func (c *Collector) request(s *sampler.Serving) EndpointID {
	name := c.served.of(s)
	if name == 0 || c.charges.ring == nil {
		return 0
	}
	x := &c.charges
	k := servedKey{number: c.served.recent[s.Work%worksRemembered].number}
	if k.number == 0 {
		k.work = s.Work
	}
	if c.served.spans && s.Span|s.RootSpan != 0 {
		k.span, k.root, k.trace = s.Span, s.RootSpan, s.Trace
	}
	id := x.ids[k]
	if id == 0 {
		x.last++
		id = x.last
		if x.at(id).id != 0 {
			x.grow()
		}
		old := x.at(id)
		if old.id != 0 {
			c.settle(old)
			delete(x.ids, old.servedKey)
		}
		*old = servedWork{servedKey: k, id: id, serving: *s, name: name}
		x.ids[k] = id
		return id
	}
	if r := x.get(id); r.serving.Work != s.Work {
		r.serving = *s
		if r.name != name && x.now {
			for _, g := range r.list {
				c.give(g.atNS, g.key.as(r.name), Weights{}.minus(g.w))
				c.give(g.atNS, g.key.as(name), g.w)
			}
		}
		r.name = name
	}
	return id
}

// as returns the key with e in place of its endpoint.
func (k Key) as(e EndpointID) Key {
	k.Endpoint = e
	return k
}

// emit keeps the weights of a request until its name is final (settle). If the field now is true, it also passes them
// to the Sinks at once, under the present name. If the request is already forgotten, its weights go to the Sinks
// without a name.
func (c *Collector) emit(atNS int64, k Key, w Weights) {
	x := &c.charges
	r := x.get(k.Endpoint)
	if r == nil {
		c.give(atNS, k.as(0), w)
		return
	}
	if x.now {
		c.give(atNS, k.as(r.name), w)
	}
	r.list = append(r.list, charge{atNS, k, w})
	if x.kept++; len(r.list) >= maxRequestCharges {
		c.settle(r)
	}
	for x.kept > x.limit {
		if x.oldest++; x.oldest > x.last {
			x.oldest -= min(x.last, maxServed)
		}
		if old := x.get(x.oldest); old != nil {
			c.settle(old)
		}
	}
}

// settle passes the kept weights of a request to the Sinks, under the name that is known now, and drops the kept
// weights. If the field now is true, the Sinks already have these weights, so settle only drops them.
func (c *Collector) settle(r *servedWork) {
	if c.charges.kept -= len(r.list); !c.charges.now && len(r.list) > 0 {
		// If the Dictionary has evicted the request, it does not have the request's name. The method anew would then
		// return a span without a name, which must not replace the known name.
		if s := &r.serving; s.Work == 0 || c.served.dict.Work(s.Work).Kind != sampler.WorkNone {
			r.name = cmp.Or(c.served.anew(s), r.name)
		}
		for _, g := range r.list {
			c.give(g.atNS, g.key.as(r.name), g.w)
		}
	}
	r.list = nil
}

// settleAll settles all requests, the oldest first: it passes their kept weights to the Sinks.
func (c *Collector) settleAll() {
	x := &c.charges
	for id := max(int64(x.last)-maxServed+1, 1); id <= int64(x.last); id++ {
		if r := x.get(EndpointID(id)); r != nil {
			c.settle(r)
		}
	}
}

func (c *Collector) give(atNS int64, k Key, w Weights) {
	for _, r := range c.out {
		r.Add(atNS, k, w)
	}
}
