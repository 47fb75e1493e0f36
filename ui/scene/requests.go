package scene

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// EndpointKey names a route or a class of jobs; other: all those that are not kept apart.
type EndpointKey struct {
	Kind  sampler.WorkKind
	Name  string
	Other bool
}

// Number is what weights of the endpoint have; 0: it is none.
func (k EndpointKey) Number(r *store.Reading) flamegraph.EndpointID {
	if k == (EndpointKey{}) {
		return 0
	}
	if id := r.Endpoint(flamegraph.Endpoint{Kind: k.Kind, Name: k.Name}); id != 0 {
		return id
	}
	return flamegraph.NoEndpoint
}

// String is what the screen calls it.
func (k EndpointKey) String() string { return canvas.Clean(EndpointName(k.Kind, k.Name)) }
