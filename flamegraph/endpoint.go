package flamegraph

import "github.com/ddtop/ddtop/sampler"

const (
	// maxEndpoints bounds the routes and classes of jobs that weights are kept apart by. Past it they have the EndpointID 0.
	maxEndpoints = 1024
	// worksRemembered is how many requests and jobs are remembered with their endpoints: the last ones. It is a power of two.
	worksRemembered = 256
)

// EndpointID names a route or a class of jobs; 0: the thread works for nobody, or there are too many to tell them apart.
type EndpointID uint16

// NoEndpoint is an EndpointID that no weight has.
const NoEndpoint EndpointID = 1<<16 - 1

// Endpoint is a route or a class of jobs: Kind and Name are those of sampler.Work. Name is "" while it is not known.
type Endpoint struct {
	Kind sampler.WorkKind
	Name string
}

// endpoints numbers endpoints.
type endpoints struct {
	dict *sampler.Dictionary // nil: all are 0
	ids  map[Endpoint]EndpointID
	// recent are the endpoints of requests and jobs, by their ID modulo the length.
	recent [worksRemembered]struct {
		work sampler.WorkID
		id   EndpointID
	}
}

// of returns the endpoint of a request or job.
func (e *endpoints) of(work sampler.WorkID) EndpointID {
	if e.dict == nil || work == 0 {
		return 0
	}
	at := &e.recent[work%worksRemembered]
	if at.work == work {
		return at.id
	}
	w := e.dict.Work(work)
	if w.Kind == sampler.WorkNone {
		return 0
	}
	k := Endpoint{w.Kind, w.Endpoint}
	id, ok := e.ids[k]
	if !ok && len(e.ids) < maxEndpoints {
		id = EndpointID(len(e.ids) + 1)
		e.ids[k] = id
	}
	at.work, at.id = work, id
	return id
}
