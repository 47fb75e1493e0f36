package sampler

import (
	"cmp"
	"maps"

	"github.com/ddtop/ddtop/sampler/intern"
)

// WorkID identifies a Work (a request or job) in a Dictionary. Zero means that there is none, or that it is not known.
type WorkID uint32

// TextID identifies a text in a Dictionary; 0 means "none".
type TextID uint32

// WorkKind is the kind of work that a thread does: a request or a job.
type WorkKind uint8

// The kinds of Work.
const (
	WorkNone WorkKind = iota
	WorkRequest
	WorkJob
)

// String returns the word for the kind in JSON: none, request, job.
func (k WorkKind) String() string { return wordOf(k, "none", "none", "request", "job") }

// WorkNumber identifies a request or job for the whole life of the Dictionary. Numbers begin with 1 and are not reused.
type WorkNumber uint64

// Work is what ddtop knows about one request or job at an instant. Later ddtop may know more: for example, it may find
// the route only after the first frames. Then another Work with the same Number replaces this one.
type Work struct {
	Number WorkNumber
	Kind   WorkKind
	// Endpoint is the route of a request ("GET orders#index", "POST /orders/:id"), or the class of a job. It is "" if
	// it is not known.
	Endpoint string
	// Path is the method of a request and the pattern of its path ("GET /orders/:id"). While the route is not known,
	// Endpoint has the same value. If ddtop knows the route of another request with the same Path, it can use this
	// route. Path is empty if the request must not get its route from other requests.
	Path string
	// SinceNS is when ddtop first saw the work. BeforeNS is when it last saw the thread without this work. So the work
	// began between these two times. Both are CLOCK_MONOTONIC in ns. BeforeNS is zero if the work had begun before
	// ddtop first read the thread.
	SinceNS, BeforeNS int64
	// QueuedNS is how long the request or job waited before a thread began to work for it, in ns. It is computed from a
	// time of day that is stored in the request or job. A load balancer (X-Request-Start) or the job's queue
	// (enqueued_at) has written this time. QueuedNS is zero if it is not known.
	QueuedNS int64
	// Values are a request's path with its ids and query, or a job's arguments. ddtop reads them only if the user asks
	// for them.
	Values string
}

// Serving is the request or job that a thread works for at an instant. The zero value means that there is none, or that
// it is not known.
type Serving struct {
	Work WorkID
	// Statement is what the thread asks a database or another service at this instant. Literal values are left out:
	// "SELECT … WHERE id = ?", "GET", "POST api.example.com".
	Statement TextID
	// Exception is the class of the exception that the thread handles at this instant ($!). If the user asked for
	// values, the exception's message follows the class.
	Exception TextID
	// Span is the id of the active span of a tracing library. RootSpan is the id of the trace's outermost span in this
	// process. Both have 64 bits, and are zero if there is no span.
	Span, RootSpan uint64
	// Trace is the id of the trace to which the span belongs. It is passed on from process to process. It is
	// big-endian, and zero if it is not known.
	Trace [16]byte
}

// InternWork returns the ID of w. If w has no ID yet, InternWork gives it one. It returns 0 if there is no room.
func (d *Dictionary) InternWork(w Work) WorkID {
	w.Endpoint, w.Path, w.Values = CutName(w.Endpoint), CutName(w.Path), CutName(w.Values)
	d.mu.Lock()
	defer d.mu.Unlock()
	id := internTold(d.entries, &d.works, w)
	if id > d.named[w.Number] && w.Number != 0 {
		d.named[w.Number] = id
	}
	d.learn(w.Path, w.Endpoint)
	return id
}

// InternText returns the ID of a text. If the text has no ID yet, InternText gives it one. It returns 0 if the text is
// "", or if there is no room.
func (d *Dictionary) InternText(s string) TextID {
	if s == "" {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return internTold(d.entries, &d.texts, text{CutName(s)})
}

// Every request makes a new entry, so after some time there would be no memory left for frames and stacks. Unused
// requests and texts are therefore evicted when both of these conditions hold:
// - New requests and texts have taken limit/toldPart bytes since the last eviction.
// - All entries together take more than limit/2.
//
// limit is the most memory that the Dictionary may have. If more than half of a shared memory is taken, limit is at
// most one part in toldShare of the shared memory.
const (
	toldPart  = 6
	toldShare = 8
)

// internTold is like internIn, but for requests and texts. If requests and texts have taken much memory, it also evicts
// unused ones (see toldPart).
func internTold[T comparable, ID ~uint32](d *entries, t *intern.Table[T, ID], v T) ID {
	before := d.bytes
	id := internIn(d, t, v, false)
	limit := d.maxBytes
	if d.room != nil && d.room.held.Load() > d.room.limit/2 {
		limit = min(limit, d.room.limit/toldShare)
	}
	if d.told += d.bytes - before; d.told >= limit/toldPart && d.bytes > limit/2 {
		d.told = 0
		// Entries that were used in the generation that ends here are kept, because samples with their IDs may not have
		// reached their receivers yet.
		ends := Generation(d.generation.Add(1)) - 1
		d.takes(-d.evictTold(ends))
	}
	return id
}

// evictTold removes the requests and texts that were last used in a generation earlier than the parameter before. It
// returns how many bytes of memory they took.
func (d *entries) evictTold(before Generation) int64 {
	freed := d.works.Evict(before, nil) + d.texts.Evict(before, nil)
	maps.DeleteFunc(d.named, func(_ WorkNumber, id WorkID) bool { return d.works.At(id) == nil })
	return freed
}

// Work returns what ddtop knows now about the request or job with an ID. This can be more than ddtop knew when it made
// the ID. All IDs with the same Number return the latest name. If a request's own route is not known, Work looks at
// other requests with the same Path. If these have only one route, Work uses it. Work returns the zero Work for 0 or an
// ID that is unknown or evicted.
func (d *Dictionary) Work(id WorkID) Work { return d.shown(d.work(id, true)) }

// OwnWork is like Work, but it never takes the route from other requests. Recordings store its result.
func (d *Dictionary) OwnWork(id WorkID) Work { return d.shown(d.work(id, false)) }

// shown applies the Dictionary's Filter, which removes names and values, to a request or job. Without a Filter it
// returns w unchanged.
func (d *Dictionary) shown(w Work) Work {
	if n := d.filter(); n != nil {
		return n.Work(w)
	}
	return w
}

func (d *entries) work(id WorkID, byOthers bool) Work {
	d.mu.RLock()
	defer d.mu.RUnlock()
	at := d.works.At(id)
	if at == nil {
		return Work{}
	}
	if last := d.works.At(d.named[at.Number]); last != nil {
		at = last
	}
	w := *at
	if byOthers && w.Path != "" && w.Endpoint == w.Path {
		w.Endpoint = cmp.Or(d.routes[w.Path], w.Endpoint)
	}
	return w
}

// Statement returns the text of Serving.Statement: what a thread asks a database or another service. It returns "" for
// 0, and for an unknown or evicted ID.
func (d *Dictionary) Statement(id TextID) string {
	s := held(d.entries, &d.texts, id).s
	if n := d.filter(); n != nil {
		return n.Statement(s)
	}
	return s
}

// Exception returns the exception that a thread handles (Serving.Exception), "Class" or "Class: message". It returns
// "" for 0 or an ID that is unknown or evicted.
func (d *Dictionary) Exception(id TextID) string {
	s := held(d.entries, &d.texts, id).s
	if n := d.filter(); n != nil {
		return n.Exception(s)
	}
	return s
}

// text is a text that a Dictionary stores, such as a database statement.
type text struct{ s string }
