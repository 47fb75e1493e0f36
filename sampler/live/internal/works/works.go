// Package works finds out when threads begin a request or a job, from the records of their switches on and off a CPU.
package works

import (
	"slices"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby"
	"github.com/ddtop/ddtop/sampler/switches"
)

const (
	// These constants apply to a thread that seems to begin work (a request or a job), but has no work when ddtop reads
	// it. After maxMisses such readings in a row, ddtop reads the thread at most once in missNS, in ns. If the thread
	// has never had work, this time doubles with each further reading, up to mostMissNS.
	maxMisses, missNS, mostMissNS = 4, 1_000_000_000, 8_000_000_000
	// maxWorks is the largest number of threads in a Works.
	maxWorks = 4096
)

// Works finds threads that begin or end work, such as a request or a job. A server's thread waits for work in a certain
// frame of its stack. While it works, its stack has further frames. So the depth of the stack at the moment when the
// thread loses its CPU shows whether the thread works.
type Works struct {
	threads map[int32]*working
	entered []ruby.Entered
	served  atomic.Bool
	// placedNS is when the BPF programs learned the frame from which they copy requests now (Placed).
	placedNS int64
	// If the last record is the first record of its thread within a request, begins is this thread. Otherwise it is
	// nil.
	begins *working
}

// working is the state of a thread.
type working struct {
	// idle is the frame in which the thread waited for work when ddtop last saw it without work. Zero means that ddtop
	// has never seen it without work.
	idle uint64
	// placed is true if ddtop knows in which frame the thread's requests are. serves is the value of Record.Serves in
	// the thread's last record. low is the low end of the thread's stack when its request was last copied.
	placed      bool
	serves, low uint64
	// unfoundNS is the time of the last report that the thread has begun a request that was not copied (Uncopied).
	unfoundNS int64
	// overNS is the time of the last record that made a reading of the thread unnecessary. At that time, the thread had
	// left its work, or its request was copied.
	overNS int64
	// cfp and ns are the innermost frame and the time of the thread's last record. asleep is true if the thread waited
	// in the kernel at that time.
	cfp    uint64
	ns     int64
	asleep bool
	// deep is true if the thread's stack is deeper than it was while the thread waited for work. looked is true if the
	// thread must be read for this reason. It stays true until the next sample. copied is true if the thread's request
	// was copied.
	deep, looked, copied bool
	// woke is true if the thread has run since it last waited for work. Its first run began after fromNS.
	woke     bool
	fromNS   int64
	misses   int
	lookedNS int64
	// served is true if the thread has ever had work.
	served bool
	// unmoved is true if a sample has shown the thread without work, and the thread has made no record yet.
	unmoved bool
}

// restNS returns the pause before ddtop reads a thread again after a reading, in ns.
func (t *working) restNS() int64 {
	switch {
	case t.misses < maxMisses:
		return 0
	case t.served:
		return missNS
	}
	return min(int64(missNS)<<min(t.misses-maxMisses, 8), mostMissNS)
}

// New returns a Works that knows no thread yet.
func New() *Works { return &Works{threads: make(map[int32]*working)} }

// Note adds a record of a thread switch. If the record shows that the thread waits for work again, Note marks the
// record (Record.Left).
func (w *Works) Note(r *switches.Record) {
	w.begins = nil
	t := w.threads[r.TID]
	switch {
	case r.Kind == switches.Exited:
		delete(w.threads, r.TID)
		return
	case r.CFP == 0 || r.Failed > 0 || r.Serves == switches.ServesUnread:
		if t != nil && !t.woke {
			t.woke, t.fromNS = true, max(r.InNS, t.ns) // the thread can have begun a request
		}
		return
	case t == nil:
		if len(w.threads) >= maxWorks {
			return
		}
		t = new(working)
		w.threads[r.TID] = t
	}
	if t.unmoved {
		t.unmoved, t.looked, t.lookedNS = false, true, r.NS
		w.entered = append(w.entered, ruby.Entered{TID: r.TID, FromNS: r.InNS, ByNS: r.NS})
	}
	asleep := r.Kind == switches.Out && r.Asleep
	from := max(r.InNS, t.ns)
	deeper := r.CFP < t.idle
	if t.placed {
		deeper = r.Serves != 0
	}
	if t.placed && r.Serves != 0 && r.Serves != t.serves {
		w.begins = t
	}
	if t.serves != 0 && r.Serves != t.serves {
		if t.copied {
			t.copied, r.Ends, r.WorkNS = false, true, from+(r.NS-from)/2
			if r.Serves == 0 && asleep {
				r.WorkNS = r.NS
			}
		}
		w.forget(t, r)
		t.woke, t.fromNS = true, from // the next request can have begun already
	}
	if !t.woke && (deeper || !asleep) {
		t.woke, t.fromNS = true, from
	}
	switch {
	case t.idle == 0:
	case deeper && !t.deep:
		t.deep = true
		if rest := t.restNS(); rest == 0 || r.NS-t.lookedNS > rest {
			t.looked, t.lookedNS = true, r.NS
			w.entered = append(w.entered, ruby.Entered{TID: r.TID, FromNS: t.fromNS, ByNS: r.NS})
		}
	case !deeper && t.deep && asleep:
		t.deep, r.Left = false, true
		w.forget(t, r)
	}
	t.woke = t.woke && (deeper || !asleep)
	t.cfp, t.ns, t.asleep, t.serves = r.CFP, r.NS, asleep, r.Serves
}

// forget removes a thread from the list that Take returns. The caller calls it if a sample of the thread is not needed:
// by the time of the record r, the thread has left its work, or its request was copied. Sampling the thread would cost
// 20 times as much as reading the copied request.
func (w *Works) forget(t *working, r *switches.Record) {
	t.overNS = r.NS
	w.entered = slices.DeleteFunc(w.entered, func(e ruby.Entered) bool { return e.TID == r.TID })
}

// Copied notes that the request of a thread was copied at the thread's last record, r. The copied stack lies between
// low and end. Copied returns two times, between which the request began. fromNS is when the thread woke up for the
// request, or earlier. byNS is the time of r, when the thread was within the request. Earlier records cannot make byNS
// earlier, because they may belong to another, short request.
//
// ok is false if it is not known when the request began. ok is also false if the thread waits for work on another
// stack, because then its other fibers can serve other requests.
func (w *Works) Copied(r *switches.Record, low, end uint64) (fromNS, byNS int64, ok bool) {
	t := w.threads[r.TID]
	if t == nil || t.ns != r.NS || r.NS < w.placedNS || t.idle != 0 && (t.idle < low || t.idle >= end) {
		return 0, 0, false
	}
	first := !t.placed || t.idle == 0 && t.low != low
	if t.placed, t.low = true, low; first {
		// ddtop learns the frame of the thread's requests only now, so the request can have begun earlier
		return 0, 0, false
	}
	t.deep, t.copied, t.looked, t.misses = true, true, false, 0
	w.served.Store(true)
	w.forget(t, r)
	return t.fromNS, r.NS, t.woke
}

// Uncopied reports whether r is the first record within a request. r must be the last record that was passed to Note.
// If r is the first, Uncopied notes that it came without a copy of the request. The copy can still come with a later
// record.
func (w *Works) Uncopied(r *switches.Record) bool {
	if w.begins == nil {
		return false
	}
	w.begins.unfoundNS = r.NS
	return true
}

// Unfound returns when a thread last began a request that was not copied. It is zero if there was none.
func (w *Works) Unfound(tid int32) int64 {
	if t := w.threads[tid]; t != nil {
		return t.unfoundNS
	}
	return 0
}

// Placed notes that the BPF programs copy requests from another frame than before, from the time ns on
// (CLOCK_MONOTONIC).
func (w *Works) Placed(ns int64) {
	w.placedNS = ns
	for _, t := range w.threads {
		t.placed, t.copied, t.serves = false, false, 0
	}
}

// Saw adds what a sample shows about threads' work. It uses only the threads that have not run since their last
// records, because their work cannot have changed since then.
func (w *Works) Saw(s *sampler.Sample) {
	for i := range s.Threads {
		x := &s.Threads[i]
		t := w.threads[x.TID]
		read := x.Quality&(sampler.StackFresh|sampler.StackFailed|sampler.WorkUnknown) == sampler.StackFresh
		if t == nil {
			if read && x.TID != 0 && x.Serving.Work == 0 && len(w.threads) < maxWorks {
				w.threads[x.TID] = &working{unmoved: true}
			}
			continue
		}
		switch {
		case read && x.Serving.Work != 0:
			t.deep, t.misses, t.served = true, 0, true
			w.served.Store(true)
		case t.looked:
			// The thread could not be read, or had not begun its work yet. So read it again after its next record.
			t.misses++
			t.deep = t.deep && t.misses >= maxMisses
		case read && t.asleep && t.ns < s.TimeNS && (t.idle == 0 || t.cfp >= t.idle || t.misses >= maxMisses):
			t.idle, t.deep = t.cfp, false
		}
		t.looked = false
	}
}

// Take returns the threads that have begun work and that a sample must read. waiting has earlier such threads, which no
// sample has read yet. Take appends the threads that were found since its last call. It leaves out threads whose work
// has already ended. Otherwise a sample could show a later request of such a thread as if it had begun at the earlier
// time.
func (w *Works) Take(waiting []ruby.Entered) []ruby.Entered {
	waiting = slices.DeleteFunc(waiting, func(e ruby.Entered) bool {
		t := w.threads[e.TID]
		return t != nil && t.overNS > e.ByNS
	})
	waiting = append(waiting, w.entered...)
	w.entered = w.entered[:0]
	return waiting
}

// Begun reports whether Take has threads to return.
func (w *Works) Begun() bool { return len(w.entered) > 0 }

// Served reports whether the process has served work: a sample had work, or a request was copied. Any goroutine may
// call it.
func (w *Works) Served() bool { return w.served.Load() }
