package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// If lackingLooks readings in a row have no fiber for a request, the request counts as ended. ddtop reads the
	// waiting fibers again and again. One reading is not enough, because the request's fiber may have run at that time.
	// If readings are incomplete, the number is cutLooks.
	lackingLooks, cutLooks = 2, 4
	// staleNS is how long a fiber counts as waiting after it was last read, in ns. With a shorter time, a request would
	// end when only a few readings fail.
	staleNS = int64(60e9)
	// lookBehindNS limits how long after the time of its sample a reading of fibers may end, in ns. A real reading ends
	// within the tick of its sample, but a damaged recording can contain any time.
	lookBehindNS = int64(10e6)
)

// fiberLooks is what Requests remembers of the readings of waiting fibers.
type fiberLooks struct {
	last   *sampler.Fibers
	number int
	// switches has the living threads in which a fiber has waited for a request. If such a thread begins other work,
	// its request may not have ended: it may wait in a fiber.
	switches map[sampler.ThreadID]bool
}

// fiberWait describes a request for which no thread works at this moment: its fiber may be waiting.
type fiberWait struct {
	// freeNS is the time up to which the request was charged. If the request's fiber waits, its wait began at freeNS.
	freeNS int64
	// look is the number of the last reading that showed the fiber. lacking is how many later readings did not show it.
	look, lacking int
}

// stale reports whether no reading has shown the fiber for more than staleNS. Time without samples does not count.
func (w *fiberWait) stale(atNS int64) bool { return atNS-w.freeNS > staleNS }

// Fibers returns the last reading of the waiting fibers, and how old it is, in ns. It returns nil if there was no
// reading. Callers must not change the result.
func (r *Requests) Fibers() (look *sampler.Fibers, ageNS int64) {
	if r.looks.last == nil {
		return nil, 0
	}
	return r.looks.last, max(r.nowNS-r.looks.last.AtNS, 0)
}

// lookAt adds a reading of the waiting fibers.
func (r *Requests) lookAt(look *sampler.Fibers) {
	l := &r.looks
	if l.last = look; look == nil {
		return
	}
	l.number++
	for i := range look.List {
		if x := &look.List[i]; x.Serving.Work != 0 {
			r.fiberWaits(x)
		}
	}
	for _, q := range r.open {
		if q.threads == 0 && q.wait.look != l.number && (q.Waits || q.fiber) {
			r.lacks(q, look)
		}
	}
}

// fiberWaits notes that a request's fiber is waiting: x is this fiber.
func (r *Requests) fiberWaits(x *sampler.Fiber) {
	at := min(max(x.AtNS, 0), r.nowNS) // a damaged recording can contain any time
	w := r.dict.OwnWork(x.Serving.Work)
	if w.Number == 0 {
		return
	}
	// only for a listed thread, because the method Ended removes the thread from switches when it ends
	if _, listed := r.stream.SlotOf(x.Thread); listed {
		if r.looks.switches == nil {
			r.looks.switches = make(map[sampler.ThreadID]bool)
		}
		r.looks.switches[x.Thread] = true
	}
	q := r.open[w.Number]
	if q == nil {
		old := r.ended.get(w.Number)
		if old != nil && old.ToNS >= at {
			return // this reading is older than the request's state
		}
		if q = r.begin(w, x.Thread, at); q == nil {
			return
		}
		q.AtLeast = q.AtLeast || old != nil // the request was counted as ended, but continues
		q.wait.freeNS = max(q.FromNS, r.firstNS)
		if old != nil {
			q.wait.freeNS = at
		}
	}
	q.wait.look, q.wait.lacking = r.looks.number, 0
	if q.threads > 0 || at <= q.wait.freeNS && q.wait.freeNS > q.FromNS {
		return // a thread works for the request now, or has worked for it since this reading
	}
	r.chargeWait(q, at)
	q.Work, q.Waits, q.fiber, q.FiberAtNS, q.Thread = w, true, false, at, x.Thread
	q.Now, q.Serving, q.Stack = gvl.ThreadState{}, x.Serving, x.Stack
}

// lacks notes that a reading of the waiting fibers has no fiber for a request. It is called in two cases: an earlier
// reading had a fiber for the request, or the thread of the request has begun to work for another request.
func (r *Requests) lacks(q *openRequest, look *sampler.Fibers) {
	ns := min(max(look.AtNS, 0), r.nowNS)
	if ns < max(q.wait.freeNS, q.awayNS) {
		return // the reading began before the thread left the request, so it proves nothing
	}
	if q.wait.lacking++; q.wait.lacking == 1 && q.Waits {
		end := min(ns+min(max(look.ReadNS, 0), gvl.MaxTimeNS), r.nowNS+lookBehindNS)
		q.slackNS = max(end-q.wait.freeNS, 0) / 2
		q.awayNS = q.wait.freeNS + q.slackNS
	}
	if q.wait.lacking < lackingLooks || look.Cut && q.wait.lacking < cutLooks {
		return
	}
	if q.Waits {
		r.chargeWait(q, q.awayNS)
		r.away(q, q.awayNS)
	}
	q.Waits, q.fiber = false, false
}

// chargeWait adds the time in which a request's fiber waited, up to toNS, to the request.
func (r *Requests) chargeWait(q *openRequest, toNS int64) {
	if c := (requestCharge{fromNS: q.wait.freeNS, toNS: toNS, fiber: true}); c.toNS > c.fromNS {
		q.add(&c)
		c.bySecond(func(second int64, part *requestCharge) { r.secondOf(q, second).add(part, part.toNS-part.fromNS) })
		q.wait.freeNS = toNS
	}
}

// resumes notes that a thread has worked for a request in the period of c. If the request's fiber waited before this
// period, the wait ended when c began.
func (r *Requests) resumes(q *openRequest, c *requestCharge) {
	if q.Waits && q.threads == 0 {
		r.chargeWait(q, c.fromNS)
	}
	q.wait.freeNS = max(q.wait.freeNS, c.toNS)
}

// skipWaits excludes a gap in the samples from the waits of fibers, because nothing is known about this time. The gap
// lasts until toNS.
func (r *Requests) skipWaits(toNS int64) {
	for _, q := range r.open {
		if q.Waits {
			q.wait.freeNS = max(q.wait.freeNS, toNS)
		}
	}
}

// waits returns the part of a request's wait in a fiber that was not yet added to the request. ok is false if there is
// no such part.
func (q *openRequest) waits(toNS int64) (c requestCharge, ok bool) {
	c = requestCharge{fromNS: q.wait.freeNS, toNS: min(toNS, q.wait.freeNS+staleNS), fiber: true}
	return c, q.Waits && q.threads == 0 && q.wait.lacking == 0 && c.toNS > c.fromNS
}
