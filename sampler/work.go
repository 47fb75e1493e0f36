package sampler

// WorkID names a Work in a Dictionary; 0 means "none, or none that could be told".
type WorkID uint32

// TextID names a text in a Dictionary; 0 means "none".
type TextID uint32

// WorkKind says what kind of work a thread does for somebody.
type WorkKind uint8

// The kinds of Work.
const (
	WorkNone WorkKind = iota
	WorkRequest
	WorkJob
)

// String is the word used in JSON: none, request, job.
func (k WorkKind) String() string {
	switch k {
	case WorkRequest:
		return "request"
	case WorkJob:
		return "job"
	}
	return "none"
}

// WorkNumber tells one request or job from another for as long as the Dictionary lives. It is given once, from 1 on.
type WorkNumber uint64

// Work is one request or job, as far as it is known at an instant. When more becomes known of it (its route, after the first
// frames), another Work of the same Number takes its place.
type Work struct {
	Number WorkNumber
	Kind   WorkKind
	// Endpoint is the route of a request ("GET orders#index", "POST /orders/:id") or the class of a job; "" where it is not known.
	Endpoint string
	// SinceNS is when the work was first seen. BeforeNS is when its thread was last seen without it. The work began
	// between the two. Both are CLOCK_MONOTONIC in ns. BeforeNS is zero if the work had begun before the thread was
	// first read.
	SinceNS, BeforeNS int64
	// QueuedNS is how long it had waited before it came to the thread, in ns, by what a load balancer or its queue has written into
	// it (X-Request-Start, a job's enqueued_at); 0: not known.
	QueuedNS int64
	// Values are its path with ids and query, or its arguments: read only where values are asked for, else "".
	Values string
}

// Serving is for whom and for what a thread works at an instant. The zero value: for nobody, or it could not be told.
type Serving struct {
	Work WorkID
	// Statement is what it asks a database or another service at this instant, without literals: "SELECT … WHERE id = ?", "GET",
	// "POST api.example.com".
	Statement TextID
	// Exception is the class of the exception that it handles ($!), with its message where values are asked for.
	Exception TextID
	// Span and RootSpan are the tracer's active span and the local root of its trace, as 64 bits; 0: none.
	Span, RootSpan uint64
	// Trace is the id of the trace, as it travels from process to process: the upper byte first; zeros where it is not known.
	Trace [16]byte
}

// InternWork returns w's ID, giving it one at its first sight; 0 when there is no room.
func (d *Dictionary) InternWork(w Work) WorkID {
	w.Endpoint, w.Values = CutName(w.Endpoint), CutName(w.Values)
	d.mu.Lock()
	defer d.mu.Unlock()
	id := internTold(d.entries, &d.works, d.workIDs, w)
	if id > d.named[w.Number] && w.Number != 0 {
		d.named[w.Number] = id
	}
	return id
}

// InternText returns the ID of a text, giving it one at its first sight; 0 for "" and when there is no room.
func (d *Dictionary) InternText(s string) TextID {
	if s == "" {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return internTold(d.entries, &d.texts, d.textIDs, text{CutName(s)})
}

// Each request is another one: in the end they would take the room of frames and stacks. Where half of a Dictionary's memory is
// taken, those in use no more are evicted each time that new ones, texts included, have taken a part, 1 of toldPart. Where
// others share the memory and have half of it, both are of 1 of toldShare.
const (
	toldPart  = 6
	toldShare = 8
)

// internTold is intern for requests and texts.
func internTold[T entry, ID ~uint32](d *entries, t *table[T], ids map[T]ID, v T) ID {
	before := d.bytes
	id := intern(d, t, ids, v)
	limit := d.maxBytes
	if d.room != nil && d.room.held.Load() > d.room.limit/2 {
		limit = min(limit, d.room.limit/toldShare)
	}
	if d.told += d.bytes - before; d.told >= limit/toldPart && d.bytes > limit/2 {
		d.told = 0
		// The generation that ends stays: its samples are still on their way to whoever reads them.
		ends := Generation(d.generation.Add(1)) - 1
		d.takes(-d.evictTold(ends))
	}
	return id
}

// evictTold takes away the requests and texts not used since a generation, and returns the memory that they took.
func (d *entries) evictTold(before Generation) int64 {
	names := int64(0)
	pages := d.works.evict(before, func(*Work, Generation) {}, func(w *Work) {
		if names += w.cost(); d.named[w.Number] == d.workIDs[*w] {
			delete(d.named, w.Number)
		}
		delete(d.workIDs, *w)
	})
	pages += d.texts.evict(before, func(*text, Generation) {}, func(t *text) { names += t.cost(); delete(d.textIDs, *t) })
	return pages + names
}

// Work returns a request or job as it is known now: IDs of the same Number have the name that was known last. It
// returns the zero Work for 0 or an ID that is unknown or evicted.
func (d *Dictionary) Work(id WorkID) Work {
	w := d.work(id)
	if n := d.filter(); n != nil {
		return n.Work(w)
	}
	return w
}

func (d *entries) work(id WorkID) Work {
	d.mu.RLock()
	defer d.mu.RUnlock()
	at := d.works.at(uint32(id))
	if at == nil {
		return Work{}
	}
	if last := d.works.at(uint32(d.named[at.Number])); last != nil {
		return *last
	}
	return *at
}

// Statement returns what a thread asks (Serving.Statement); "" for 0 or an ID that is unknown or evicted.
func (d *Dictionary) Statement(id TextID) string {
	s := d.text(id)
	if n := d.filter(); n != nil {
		return n.Statement(s)
	}
	return s
}

// Exception returns what a thread handles (Serving.Exception), "Class" or "Class: message"; "" for 0 or an ID that is unknown or
// evicted.
func (d *Dictionary) Exception(id TextID) string {
	s := d.text(id)
	if n := d.filter(); n != nil {
		return n.Exception(s)
	}
	return s
}

func (d *entries) text(id TextID) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if at := d.texts.at(uint32(id)); at != nil {
		return at.s
	}
	return ""
}

// text is an entry of a Dictionary.
type text struct{ s string }
