package account

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxOpenRequests limits how many requests and jobs in progress are followed separately. The time of all further
	// ones is added up as "other".
	maxOpenRequests = 4096
	// maxEndedRequests limits how many ended requests are remembered. If there are more, the oldest are dropped. The
	// requests take 4 MB, and the index that finds them takes 1 MB.
	maxEndedRequests = 1 << 14
	// maxRequestPeers limits how many peers are reported for one request or endpoint. These are the peers with the most
	// time. To find them, time is added up for at most maxSumPeers peers.
	maxRequestPeers, maxSumPeers = 6, 16
	// leftReadings and leftNS decide when a request counts as ended. At least leftReadings samples of stacks in a row
	// must lack it, and leftNS (in ns) must have passed. One sample is not enough, because reading a stack can fail.
	leftReadings = 3
	leftNS       = int64(100e6)
	// suspendedNS replaces leftNS and leftReadings if the request runs on a fiber, in ns. Such a fiber can be
	// suspended, and samples then do not show the request.
	suspendedNS = int64(10e9)
)

// Requests follows the requests and jobs that threads work for (sampler.Serving). A request's endpoint can become known
// late. Then all time of the request, from its beginning on, belongs to the last known endpoint. Requests is a
// gvl.Consumer. It is not safe for concurrent use.
type Requests struct {
	gvl.Ignore
	dict    *sampler.Dictionary
	groups  PeerGroups
	stream  *stream.Stream
	open    map[sampler.WorkNumber]*openRequest
	slots   []requestSlot  // by Interval.Slot
	leaving []*openRequest // requests for which no thread works, so they may have ended
	holder  requestSlot    // the holder in the last LockInterval
	spare   [][]endpointSecond
	looks   fiberLooks

	ended     endedRequests
	endpoints endpointSums
	begun     begunRequests
	// none adds up the time in which threads worked for no request.
	none           endpointSecond
	leftOut        uint64
	started        bool
	firstNS, nowNS int64
}

// requestSlot is what a thread works for. q is nil if the thread works for no request, or if too many other requests
// are in progress (maxOpenRequests).
type requestSlot struct {
	thread sampler.ThreadID
	work   sampler.WorkID
	q      *openRequest
	// over is work that the thread has already ended, as changes of the GVL show. But samples still show this work
	// until they read the thread's stack again.
	over sampler.WorkID
	// left is the last request of this thread that was counted in Requests.leftOut. With left, a request is not counted
	// twice.
	left sampler.WorkNumber
	// readNS are the last two times at which the thread's stack was read, the later one first.
	readNS [2]int64
}

// openRequest is a request in progress.
type openRequest struct {
	Request
	threads int // the number of threads that work for the request
	// readNS is when a sample last showed the request. awayNS is when the last thread stopped working for it. readings
	// is the number of samples since awayNS.
	readNS, awayNS int64
	readings       int
	slackNS        int64 // by how much awayNS can be wrong
	fiber          bool  // the request runs on a fiber that another fiber has resumed
	cut            bool  // it is not known when the request ended
	unread         bool  // since readNS, samples could not show whether the thread still works for the request
	done           bool
	leaving        bool // the request is in Requests.leaving
	unsampled      bool // no sample has shown the request: changes say when it began and ended
	going          bool // the request is unsampled, and its thread still works for it
	wait           fiberWait
	peers          peerSums
	// seconds are the request's sums for each second, in order of time. They are added to an endpoint when the request
	// has ended, or when there are too many of them.
	seconds []endpointSecond
}

// NewRequests returns a Requests that reads the stream s. The IDs in the stream point into dict. It keeps figures of
// endpoints for each second of the last keepNS, but for at most maxEndpointSeconds seconds.
func NewRequests(s *stream.Stream, dict *sampler.Dictionary, keepNS int64) *Requests {
	r := &Requests{dict: dict, groups: PeerGroups{Dict: dict}, stream: s, open: make(map[sampler.WorkNumber]*openRequest), endpoints: newEndpointSums(keepNS)}
	r.ended.at, r.begun.unfound = make(map[sampler.WorkNumber]int), make(map[sampler.ThreadID]int64)
	s.Attach(r)
	return r
}

// Keep makes Requests keep the figures for each second of at least the last ns nanoseconds (see NewRequests). It never
// shortens this time. Call it before the first sample.
func (r *Requests) Keep(ns int64) {
	if e := newEndpointSums(ns); len(e.recent) > len(r.endpoints.recent) {
		r.endpoints = e
	}
}

// LeftOut returns how many requests and jobs were not followed separately, because too many were in progress. Their
// time is in the Endpoint with Other set.
func (r *Requests) LeftOut() uint64 { return r.leftOut }

// Interval adds a thread's time to the request that the thread worked for.
func (r *Requests) Interval(i *gvl.Interval) {
	var s *requestSlot
	if i.Slot < len(r.slots) {
		s = &r.slots[i.Slot]
	}
	r.charge(s, i.Thread, i.Serving.Work, r.timeCharge(i))
}

// Lock adds to BlameNS of the holder's request the time for which threads wait for the GVL.
func (r *Requests) Lock(i *gvl.LockInterval) {
	if i.Waiters == 0 || !i.Blamed() {
		return
	}
	id := i.Serving.Work
	if id != r.holder.work || r.holder.q == nil || r.holder.q.done {
		r.holder = requestSlot{work: id, q: r.find(id, i.Thread, i.FromNS)}
	}
	s := &r.holder
	if s.q == nil {
		s = nil
	}
	r.charge(s, i.Thread, id, requestCharge{fromNS: i.FromNS, toNS: i.ToNS, waiters: i.Waiters})
}

// requestCharge is time that is added to a request. If waiters is 0, it is time of the request in one state. If waiters
// is above 0, it is time in which the request's thread made others wait for the GVL.
type requestCharge struct {
	fromNS, toNS int64
	state        gvl.State
	peer         uint32 // the group of peers for which the request waits
	waiters      int64
	fiber        bool // this is time in which a fiber waited for the request
}

func (r *Requests) timeCharge(i *gvl.Interval) requestCharge {
	c := requestCharge{fromNS: i.FromNS, toNS: i.ToNS, state: i.State}
	if i.State == gvl.IO {
		c.peer = r.groups.GroupOf(i.Detail.Peer)
	}
	return c
}

// charge adds the time c to the request with the given id. s is what the thread worked for in the last sample. It may
// be nil.
func (r *Requests) charge(s *requestSlot, thread sampler.ThreadID, id sampler.WorkID, c requestCharge) {
	if id == 0 {
		r.none.add(&c, c.toNS-c.fromNS)
		return
	}
	var q *openRequest
	if s != nil && s.work == id && (s.q == nil || !s.q.done) {
		q = s.q
	} else if q = r.find(id, thread, c.fromNS); q == nil {
		// the stream reported this time of the thread only after the request had ended
		if e := r.ended.get(r.dict.OwnWork(id).Number); e != nil {
			e.add(&c)
			r.endpoints.charge(keyOf(&e.Work), &c)
			return
		}
	}
	if q == nil {
		r.endpoints.charge(endpointKey{other: true}, &c)
		return
	}
	if c.waiters == 0 {
		r.resumes(q, &c)
	}
	q.add(&c)
	if q.unsampled && c.waiters == 0 {
		q.awayNS = max(q.awayNS, c.toNS)
	}
	c.bySecond(func(second int64, part *requestCharge) { r.secondOf(q, second).add(part, part.toNS-part.fromNS) })
}

// find returns the request in progress with an ID. If the request is new, find adds it. It returns nil in three cases:
// the request has ended, there is no room, or the Dictionary does not know the ID.
func (r *Requests) find(id sampler.WorkID, thread sampler.ThreadID, atNS int64) *openRequest {
	if id == 0 {
		return nil
	}
	w := r.dict.OwnWork(id)
	if q := r.open[w.Number]; q != nil || w.Number == 0 || r.ended.get(w.Number) != nil {
		return q
	}
	q := r.begin(w, thread, atNS)
	if q != nil {
		q.unsampled = true
	}
	return q
}

func (r *Requests) begin(w sampler.Work, thread sampler.ThreadID, atNS int64) *openRequest {
	if len(r.open) >= maxOpenRequests {
		return nil
	}
	past := PastRequest{Work: w, Thread: thread, AtLeast: w.BeforeNS <= 0}
	q := &openRequest{Request: past.request(), readNS: atNS}
	afterOthers(r.stream, &w, thread)
	q.FromNS = min(beginOf(&w, atNS), r.stream.LastNS()) // a damaged recording can contain any time
	if n := len(r.spare); n > 0 {
		q.seconds, r.spare = r.spare[n-1], r.spare[:n-1]
	}
	r.open[w.Number] = q
	r.away(q, atNS) // no thread works for the request until a sample shows one
	return q
}

// away notes that no thread has worked for a request since atNS. From now on, Tick checks whether the request has
// ended.
func (r *Requests) away(q *openRequest, atNS int64) {
	q.awayNS, q.readings = atNS, 0
	if !q.leaving {
		q.leaving = true
		r.leaving = append(r.leaving, q)
	}
}

// Ended notes that the thread with this slot has ended, so the thread has stopped working for its request.
func (r *Requests) Ended(slot int, atNS int64) {
	if slot >= len(r.slots) {
		return
	}
	if q := r.slots[slot].q; q != nil {
		// cut is true if the thread ended in a gap between samples
		q.fiber, q.cut, q.slackNS = false, atNS <= r.nowNS, 0
		r.leave(q, atNS)
	}
	delete(r.looks.switches, r.slots[slot].thread)
	r.slots[slot] = requestSlot{}
}

func (r *Requests) leave(q *openRequest, atNS int64) {
	if q.threads--; q.threads == 0 {
		q.wait.lacking = 0
		if q.wait.freeNS <= q.readNS { // otherwise the time since then has been charged already
			q.wait.freeNS = max(atNS, q.wait.freeNS)
		}
		r.away(q, atNS)
	}
}

// Tick updates which request or job each thread works for.
func (r *Requests) Tick(k *gvl.Tick) {
	if !r.started {
		r.started, r.firstNS = true, k.ToNS
	}
	r.nowNS = k.ToNS
	r.begun.changes(k.Changes.List, r)
	for i, slot := range k.Slots {
		if slot < 0 {
			continue
		}
		for slot >= len(r.slots) {
			r.slots = append(r.slots, requestSlot{})
		}
		t, s := &k.Threads[i], &r.slots[slot]
		s.thread = t.ID
		read := t.Quality&sampler.StackFresh != 0
		if !read && r.over(s, t) {
			setNow(r.find(r.stream.Working(t.ID), t.ID, k.ToNS), k.States[i])
			continue
		}
		unread := r.unread(s, t, k)
		if !unread && (t.Serving.Work != s.work || s.q != nil && s.q.done) {
			r.move(s, t, k)
		}
		if q := s.q; q != nil && !unread {
			q.unread = false
			q.Now, q.Serving, q.Stack = k.States[i], t.Serving, t.Stack
			if k.Depth == sampler.StackTick || read {
				q.readNS, q.fiber = k.ToNS, len(t.Resumers) > 0 || r.looks.switches[t.ID]
			}
		} else if q == nil {
			setNow(r.find(r.stream.Working(t.ID), t.ID, k.ToNS), k.States[i])
		}
		if read && t.Quality&sampler.StackFailed == 0 {
			s.readNS[0], s.readNS[1] = k.ToNS, s.readNS[0]
		}
	}
	if k.Gap {
		r.skipWaits(k.ToNS)
	}
	if l := r.looks.last; k.Fibers != l {
		if l != nil && k.Fibers != nil && l.AtNS == k.Fibers.AtNS && l.ReadNS == k.Fibers.ReadNS {
			r.looks.last = k.Fibers // the same reading, from another block of a recording
		} else {
			r.lookAt(k.Fibers)
		}
	}
	for _, q := range r.leaving {
		q.going = q.unsampled && r.dict.OwnWork(r.stream.Working(q.Thread)).Number == q.Work.Number
	}
	if k.Depth == sampler.StackTick && len(r.leaving) > 0 {
		r.leaving = slices.DeleteFunc(r.leaving, func(q *openRequest) bool { return r.gone(q, k.ToNS) })
	}
}

// unread reports whether the sample could not read what a thread works for. In this case the thread may still work for
// its last request. On a machine without free CPUs, several consecutive samples may fail to read it.
func (r *Requests) unread(s *requestSlot, t *sampler.Thread, k *gvl.Tick) bool {
	q := s.q
	if q == nil || q.done || k.Gap || t.Serving.Work != 0 || t.Quality&sampler.WorkUnknown == 0 || k.ToNS-q.readNS > suspendedNS {
		return false
	}
	q.unread = true
	return true
}

// move sets what a thread works for to the work that a sample shows.
func (r *Requests) move(s *requestSlot, t *sampler.Thread, k *gvl.Tick) {
	id := t.Serving.Work
	if q := s.q; q != nil && !q.done {
		q.cut, q.slackNS = k.Gap || t.Quality&sampler.WorkUnknown != 0, 0
		q.Late, q.unread = q.Late || q.unread, false
		at := q.readNS
		if !q.cut {
			q.slackNS = (k.ToNS - q.readNS) / 2
			at += q.slackNS
			if left, slack := leftRequest(r.stream, q, t.ID); left != 0 {
				at, q.slackNS = left, slack
			}
		}
		r.leave(q, at)
	}
	s.work, s.over, s.q = id, 0, nil
	if id == 0 {
		return
	}
	w := r.dict.OwnWork(id)
	q := r.open[w.Number]
	if q == nil && w.Number != 0 {
		q = r.begin(w, t.ID, k.ToNS)
		switch {
		case q == nil && s.left != w.Number: // count a request only once, also if more is known about it later
			s.left = w.Number
			r.leftOut++
		case q == nil:
		case r.ended.get(w.Number) != nil:
			q.AtLeast = true // the request was counted as ended, but continues
		}
	}
	r.begun.seen(t.ID, &w)
	if q == nil {
		return
	}
	if w.BeforeNS > 0 && w.BeforeNS < s.readNS[1] && w.SinceNS > s.readNS[0] && !r.looks.switches[t.ID] {
		q.Late = true
	}
	if q.Waits && !k.Gap {
		at := k.MidNS
		if last := s.readNS[0]; last > 0 {
			at = last + (k.ToNS-last)/2
		}
		r.chargeWait(q, at) // chargeWait adds only the time that was not charged yet
	}
	q.Waits = false
	q.Work, q.Thread, q.cut, q.unsampled, q.going = w, t.ID, false, false, false
	q.threads++
	s.q = q
}

// gone reports whether a request can be removed from Requests.leaving, because it has ended or a thread works for it
// again. If the request has ended, gone also moves it to the ended requests.
func (r *Requests) gone(q *openRequest, atNS int64) bool {
	if q.threads > 0 {
		q.leaving = false
		return true
	}
	if q.unsampled {
		if q.going {
			return false
		}
		left, _ := r.stream.LeftWork(q.Thread, q.awayNS)
		q.cut = left == 0 // no change shows when the thread left the request
	}
	if q.Waits {
		if !q.wait.stale(atNS) {
			return false
		}
		q.Waits, q.cut, q.slackNS, q.awayNS = false, true, 0, q.FiberAtNS
	}
	q.readings++
	if !hasLeft(q.fiber, q.readings, atNS-q.awayNS) {
		return false
	}
	q.fiber, q.done = false, true
	q.stands(q, atNS)
	q.Now, q.Serving, q.Stack = gvl.ThreadState{}, sampler.Serving{}, 0
	q.Peers = r.sumsByPeer(q.peers)
	delete(r.open, q.Work.Number)
	r.endpoints.settle(q)
	r.spare = append(r.spare, q.seconds[:0])
	q.seconds = nil
	r.ended.add(&q.PastRequest)
	return true
}

// hasLeft reports whether a request for which no thread works counts as ended. readings is the number of readings of
// stacks since the last thread stopped working for the request. sinceNS is the time since then. fiber is true if the
// request runs on a fiber that can be resumed.
func hasLeft(fiber bool, readings int, sinceNS int64) bool {
	if fiber {
		return sinceNS > suspendedNS
	}
	return readings >= leftReadings && sinceNS >= leftNS
}

// stands sets the fields of x that depend on the time: its end, its SlackNS, and whether it is in progress. It uses
// only what is known at atNS. x is the request q or a copy of it.
func (x *Request) stands(q *openRequest, atNS int64) {
	if q.hasEnded() && q.awayNS <= atNS {
		x.ToNS, x.AtLeast = max(q.awayNS, x.FromNS), x.AtLeast || q.cut
		x.SlackNS = q.slackNS + x.BeginSlackNS()
		return
	}
	x.SlackNS = x.BeginSlackNS()
	x.InProgress, x.Suspended = true, q.threads == 0 && !q.going
	if q.unread {
		atNS, x.AtLeast = min(atNS, q.readNS), true
	}
	x.ToNS = max(atNS, x.FromNS)
	if c, ok := q.waits(atNS); ok {
		x.FiberNS += c.toNS - c.fromNS
	}
}

// hasEnded reports whether the request counts as ended. A thread may still work for it again later.
func (q *openRequest) hasEnded() bool {
	return q.threads == 0 && !q.going && (!q.fiber && !q.Waits || q.wait.lacking > 0)
}

func (q *openRequest) add(c *requestCharge) {
	q.Request.add(c)
	q.peers.add(c.peer, c.toNS-c.fromNS)
}

func (q *PastRequest) add(c *requestCharge) {
	if c.waiters > 0 {
		q.BlameNS += c.waiters * (c.toNS - c.fromNS)
		return
	}
	if c.fiber {
		q.FiberNS += c.toNS - c.fromNS
		return
	}
	q.NS[c.state] += c.toNS - c.fromNS
}
