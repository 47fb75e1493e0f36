package works

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/ruby"
	"github.com/ddtop/ddtop/sampler/switches"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

const (
	// maxBegun is the largest number of copied requests that wait until the clock finds their IDs.
	maxBegun = 128
	// routeTries limits how often a request is read again because its route is not known yet. Reads are at least 12 ms
	// apart.
	routeTries = 4
	// withinNS limits how long a record of a thread switch waits until its request's ID is found, in ns.
	withinNS = 300_000_000
)

// Requests are requests (of a web server, for example) that a BPF program has copied at their begin, and that have no
// WorkID yet. One goroutine takes the copies. The goroutine that samples the process (the clock) reads the memory to
// which the copies refer, and finds the IDs. Neither goroutine waits for the other.
type Requests struct {
	// copies has the copies of requests that the last Drain took from the BPF programs. begun has the requests in these
	// copies that Give has not given to the clock yet.
	copies map[instant]*begun
	begun  []*begun
	// finding has the requests whose IDs Find must find. place says where the BPF programs read requests. Only the
	// clock uses these two fields.
	finding []*begun
	place   tracer.WorkPlace
	// over is true while no clock (sampling goroutine) runs that could find requests.
	over atomic.Bool
}

// instant is a thread and a time. A record of a thread switch and the copy of a request belong together if both have
// the same instant.
type instant struct {
	tid int32
	ns  int64
}

// begun is a request that was copied when it began. id is its ID once done is true, or 0 if the request was not found.
type begun struct {
	of         *Requests
	low, end   uint64
	copied     ruby.CopiedWork
	takenNS    int64
	tries      int
	done       atomic.Bool
	id         sampler.WorkID
	generation sampler.Generation
	dict       *sampler.Dictionary
}

// Ready reports whether waiting for the request's ID is over. It is over if the request was found, if no clock
// (sampling goroutine) runs that could find it, or after withinNS.
func (b *begun) Ready() bool {
	return b.done.Load() || b.of.over.Load() || pace.Monotonic()-b.takenNS >= withinNS
}

// ID returns the ID of the request. It is zero if the request was not found, or if the Dictionary has begun a new
// generation since the request was found.
func (b *begun) ID() sampler.WorkID {
	if !b.done.Load() || b.id == 0 || b.generation != b.dict.Generation() {
		return 0
	}
	return b.id
}

// Drain takes the copies of requests that a feed has collected. f may be nil. Each copy belongs to a record of a thread
// switch, which is passed to Note before the next Drain.
func (q *Requests) Drain(f *tracer.Feed) error {
	clear(q.copies)
	if f == nil {
		return nil
	}
	return f.DrainWorks(func(w *tracer.Work) {
		if q.copies == nil {
			q.copies = make(map[instant]*begun)
		}
		q.copies[instant{w.TID, w.NS}] = &begun{of: q, low: w.Low, end: w.End, takenNS: pace.Monotonic(), copied: ruby.CopiedWork{
			Context: w.Context, Hash: w.Hash, Table: w.Table, EntriesAt: w.EntriesAt, Entries: bytes.Clone(w.Entries),
			Collector: w.Collector, Collections: w.Collections}}
	})
}

// uncopied replaces a request of which ddtop has seen the begin, but which was not copied. So its ID cannot be found.
type uncopied struct{}

func (uncopied) Ready() bool        { return true }
func (uncopied) ID() sampler.WorkID { return 0 }

// Note adds a request to a record of a thread switch, if the thread has begun this request by the time of the record.
// The caller must first pass the record to w.Note.
func (q *Requests) Note(r *switches.Record, w *Works) {
	b := q.copies[instant{r.TID, r.NS}]
	if b == nil || len(q.begun) >= maxBegun {
		if w.Uncopied(r) {
			r.Work, r.WorkNS = uncopied{}, r.NS
		}
		return
	}
	var ok bool
	if b.copied.FromNS, b.copied.ByNS, ok = w.Copied(r, b.low, b.end); ok {
		// The request may already have been reported without an ID, at an earlier record that came without a copy. So
		// its begin must not be before that record.
		r.Work, r.WorkNS = b, max(b.copied.FromNS+(b.copied.ByNS-b.copied.FromNS)/2, w.Unfound(r.TID))
		q.begun = append(q.begun, b)
	}
}

// Begun reports whether there are requests that Give can give to the clock.
func (q *Requests) Begun() bool { return len(q.begun) > 0 }

// Give moves the requests in begun to the list finding, so that the clock finds their IDs in Find.
func (q *Requests) Give() { q.finding, q.begun = append(q.finding, q.begun...), q.begun[:0] }

// WithoutClock sets whether there is no clock (sampling goroutine) to call Find. If there is none, Ready returns true
// at once, and records are passed on without their requests.
func (q *Requests) WithoutClock(is bool) { q.over.Store(is) }

// Find finds the IDs of requests. It reads requests from the process while allows returns true. After each reading, it
// passes the CPU time, measured by cost, to spend. A request that it could not read gets an ID without a name. The
// clock (the sampling goroutine) calls Find between two ticks.
func (q *Requests) Find(r *ruby.Reader, dict *sampler.Dictionary, cost *pace.Meter, allows func() bool, spend func(ns int64)) {
	// Find the IDs of new requests first. Requests that were read before, and lack only a route, come last.
	slices.SortStableFunc(q.finding, func(a, b *begun) int { return a.tries - b.tries })
	q.finding = slices.DeleteFunc(q.finding, func(b *begun) bool {
		var id sampler.WorkID
		early := false
		if allows() {
			id, early = r.Copies().Take(&b.copied)
			spend(cost.Since())
		}
		if id == 0 {
			id = r.Copies().Unnamed(&b.copied)
		}
		b.id, b.generation, b.dict = id, dict.Generation(), dict
		if b.tries++; early && b.tries < routeTries {
			return false
		}
		b.done.Store(true)
		return true
	})
}

// Waiting reports whether requests wait until Find finds their IDs.
func (q *Requests) Waiting() bool { return len(q.finding) > 0 }

// Place tells the BPF programs where threads keep their requests, so that the programs copy them. f may be nil. The
// clock calls Place while no goroutine drains the feed.
func (q *Requests) Place(r *ruby.Reader, f *tracer.Feed, w *Works) error {
	p, ok := r.Copies().Place()
	if !ok || f == nil || tracer.WorkPlace(p) == q.place {
		return nil
	}
	q.place = tracer.WorkPlace(p)
	err := f.SetWork(&q.place)
	w.Placed(pace.Monotonic())
	return err
}
