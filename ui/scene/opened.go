package scene

import (
	"slices"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Opened is a request or job whose thread the user has opened. It remembers what has happened to the request or job
// since then. It is zero if the user has opened no request.
type Opened struct {
	Number sampler.WorkNumber
	Thread sampler.ThreadID
	name   string
	// fromNS is when the request began or was first seen. seenNS is when it was last seen in progress. lasted is its
	// duration as text. lasted is empty if ddtop did not see the request end.
	fromNS, seenNS int64
	lasted         string
}

// OpenedOf returns an Opened for a request that the user opens while it is in progress.
func OpenedOf(q *account.Request) Opened {
	name := canvas.Clean(EndpointName(q.Work.Kind, q.Work.Endpoint))
	return Opened{Number: q.Work.Number, Thread: q.Thread, name: name, fromNS: q.FromNS, seenNS: q.FromNS}
}

// Load updates o: it looks for the request among the requests at the moment on the screen.
func (o *Opened) Load(sc *Scene) {
	same := func(q *account.Request) bool { return q.Work.Number == o.Number }
	if last := sc.Served.Last; last != nil && same(last) {
		o.lasted = units.Duration(last.DurationNS())
	}
	if slices.ContainsFunc(sc.Served.Running, func(q account.Request) bool { return same(&q) }) {
		o.seenNS = max(o.seenNS, sc.AtNS)
	}
}

// Text returns a text for the thread's page that says what has happened to the request. It is empty if the page shows
// another thread, or if the thread still works for the request at the moment on the screen.
func (o *Opened) Text(sc *Scene, thread sampler.ThreadID) string {
	if o.Number == 0 || thread != o.Thread || sc.AtNS < o.fromNS {
		return ""
	}
	if sc.Dict.Work(sc.Served.ServingOf[thread].Work).Number == o.Number {
		return ""
	}
	if slices.ContainsFunc(sc.Served.Running, func(q account.Request) bool { return q.Work.Number == o.Number }) {
		return o.name + " waits: its thread works for others"
	}
	if o.lasted != "" {
		return o.name + " is over: it took " + o.lasted
	}
	return o.name + " is over: it took at least " + units.Duration(max(o.seenNS-o.fromNS, 0))
}
