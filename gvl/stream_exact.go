package gvl

import "github.com/ddtop/ddtop/sampler"

const (
	// mainRactor is the one whose GVL sampler.Changes are about.
	mainRactor = sampler.RactorID(1)
	// maxExactSegments bounds the changes of one thread that are remembered between two readings of its stack where all of them are
	// known, maxKept those of all threads: 20 MB. Past it maxSegments holds.
	maxExactSegments, maxKept = 1 << 13, 1 << 17
	// keptSegments is how many a thread has memory for in any case; more is given back when it has not been needed for shrinkReadings
	// readings.
	keptSegments, shrinkReadings = 4 * maxSegments, 64
	// maxAgainst samples in a row of a thread that did not change meanwhile, over againstNS at least, must contradict what changes said of
	// it for that to be believed no longer. One can, for it is read some µs from its time. All can for as long as a thread has no CPU that
	// lost it after it had changed the scheduler and before it gave the mutex back, where the change is recorded: with a limit on the
	// process's CPU time that is a tenth of a second and more.
	maxAgainst, againstNS = 3, 1e9
	// lookNS is for how long a stack stands for stretches of time that no reading saw.
	lookNS = 5e9
	// yieldNS is for how long a thread that lets others run after its time slice is without the GVL, at most, until it is in the queue.
	yieldNS = 1e6
	// keptWaits is how many waits of threads that are new there is memory for in any case.
	keptWaits = 1024
)

// linking is what the Changes of a sample are good for.
type linking uint8

const (
	// unlinked: none are known.
	unlinked linking = iota
	// knowing: the time since the last sample is not known, but the states at its end are.
	knowing
	// exactly: they are all there were since the last sample.
	exactly
)

// notAsked is the Detail of time of which no sample tells what a thread had released the GVL for.
var notAsked = Detail{FD: -1, Reason: reasonNotAsked}

// exactStream is what a Stream remembers of sampler.Changes.
type exactStream struct {
	// live: the last step was cut by changes, which reach until toNS.
	live bool
	toNS int64
	// holder holds the main ractor's GVL, by changes or by the last sample; chosen is the next one to; nil: nobody, or it is not
	// known. unlisted is the native thread of a holder that no sample listed. last held it last.
	holder, chosen *streamThread
	unlisted       int32
	last           sampler.ThreadID
	// freedNS is when somebody gave the GVL away last; 0: not seen.
	freedNS int64
	// lonely began to wait at lonelyNS, when nobody held the GVL and nobody was chosen; lonelyShort is it as a native thread where no
	// sample listed it, 0 otherwise.
	lonely      *streamThread
	lonelyShort int32
	lonelyNS    int64
	// now is in what state threads are at the end of a step that is not cut, and nowHolds who holds the GVL then.
	now      map[sampler.ThreadID]sampler.GVLState
	nowHolds sampler.ThreadID
	// kept counts the segments of all threads.
	kept int
	// short are threads that no sample listed and that wait, by their native thread.
	short map[int32]unlistedThread
	// late are the waits of threads that consumers have not heard of yet.
	late []Wait

	// Of the step being fed: its threads, nil for one that is listed twice; the one that a sample at its end says holds the GVL, where it
	// is in the sample, and where its last change in the list is (-1: there is none).
	step    step
	recs    []*streamThread
	sub     *streamThread
	subAt   int
	subLast int
	sample  *sampler.Sample
	states  []ThreadState
}

// exactThread is what a Stream knows of a thread by changes.
type exactThread struct {
	gvl sampler.GVLState
	// known: gvl is since the last change, and there was none after it. seen: a sample has seen the thread in the stretch without the
	// GVL that goes on. unseen: there is time of such, since unseenNS, of which no sample has told the kind.
	known, seen, unseen bool
	// unbegun: it was not in the last sample. begun: its time has begun, though.
	unbegun, begun bool
	// against counts the samples in a row that contradict gvl, up to maxAgainst, the first of them at againstNS.
	against   uint8
	againstNS int64
	unseenNS  int64
	// lastKind is what the thread had released the GVL for when that was known last, Unknown when it never was.
	lastKind   State
	kindDetail Detail
	// endedNS is when it ended; 0: it has not.
	endedNS int64
	// Of a wait: whether its begin is exact and all changes since are known, when the thread was chosen (0: not yet), what of it was
	// without a CPU, and who held the GVL when it began.
	exactWait bool
	// heldNS is since when it holds the GVL, or did last, letGoNS when it gave that away.
	heldNS, letGoNS int64
	chosenNS        int64
	noCPUNS         int64
	first           sampler.ThreadID
	// waitStack is the stack that the wait ended with; 0: it goes on, or that is not known.
	waitStack sampler.StackID
	// looks are the last readings of it holding the GVL, waiting for it, and without it.
	looks [numPlaces]pastLook
	// most is how many segments there were at most in the last readings.
	most, readings int
}

// pastLook is what was read at a time; 0: nothing.
type pastLook struct {
	look
	atNS int64
}

// numPlaces counts the places.
const numPlaces = placeReleased + 1

// placeOf is where a thread in a state is.
func placeOf(s State) place {
	switch {
	case s.Held():
		return placeHeld
	case s == Waiting:
		return placeWaiting
	}
	return placeReleased
}

// linked finds out what the changes of a sample are good for, and forgets what they don't follow on.
func (s *Stream) linked(x *sampler.Sample, st step) linking {
	c, e := &x.Changes, &s.exact
	// Of a process that is held from outside changes say that threads wait, which they do for whatever holds it.
	if x.Proc.Halted() || !c.Known() || len(c.List) > sampler.MaxChanges {
		if e.live || e.toNS != 0 {
			s.unlink(st)
		}
		return unlinked
	}
	follows := !c.Fresh && c.FromNS == e.toNS && !st.gap
	if !follows && e.toNS != 0 {
		s.unlink(st)
	}
	e.toNS = c.ToNS
	if st.first || st.gap {
		e.know(c)
		return knowing
	}
	return exactly
}

// unlink forgets what changes said: what came after the last sample is not known by them.
func (s *Stream) unlink(st step) {
	e := &s.exact
	e.live, e.toNS, e.holder, e.chosen, e.unlisted, e.last, e.freedNS, e.lonely = false, 0, nil, nil, 0, 0, 0, nil
	clear(e.short)
	for _, rec := range s.table.byID {
		r := &rec.v
		if !r.known && !r.exactWait && !r.unseen {
			continue
		}
		r.exactWait = false
		if r.known {
			s.cut(r, st.fromNS)
			r.known, r.stepNS = false, st.lengthNS()
		}
		if r.unseen && !r.open {
			s.giveUp(r)
		}
	}
}

// know takes from changes in what state threads are now; the time in which they happened is not cut.
func (e *exactStream) know(c *sampler.Changes) {
	e.now, e.nowHolds = make(map[sampler.ThreadID]sampler.GVLState), 0
	for i := range c.List {
		g := &c.List[i]
		if g.Thread == 0 {
			continue
		}
		switch {
		case g.State == sampler.GVLHeld && e.nowHolds != g.Thread:
			if e.nowHolds != 0 {
				e.now[e.nowHolds] = sampler.GVLReleased // one GVL has one holder
			}
			e.nowHolds = g.Thread
		case g.State != sampler.GVLHeld && e.nowHolds == g.Thread:
			e.nowHolds = 0
		}
		e.now[g.Thread] = g.State
	}
}

// corrected is a thread's state with what changes say.
func (e *exactStream) corrected(r *streamThread, ts *ThreadState) *ThreadState {
	if ts.Ractor != mainRactor {
		return ts
	}
	if g := e.now[ts.Thread]; g != sampler.GVLGone {
		r.gvl, r.known, r.seen, r.against = g, true, true, 0
	}
	x := *ts
	switch {
	case !r.known && ts.State.Held() && e.nowHolds != 0,
		r.known && r.gvl == sampler.GVLReleased && placeOf(ts.State) != placeReleased:
		x.State, x.Detail = Unknown, notAsked
	case !r.known:
	case r.gvl == sampler.GVLHeld && !ts.State.Held():
		x.State, x.Detail = Running, Detail{FD: -1}
	case r.gvl == sampler.GVLQueued || r.gvl == sampler.GVLChosen:
		if ts.State != Waiting {
			x.State, x.Detail = Waiting, Detail{FD: -1}
		}
		x.Detail.Wait = waitKind(r.gvl)
	}
	return &x
}

// waitKind is how a thread waits that is in the queue, or chosen.
func waitKind(g sampler.GVLState) WaitKind {
	if g == sampler.GVLChosen {
		return WaitHandover
	}
	return WaitQueue
}

// room reports whether there is room for another segment of a thread beyond maxSegments.
func (e *exactStream) room(r *streamThread) bool {
	return r.unbegun || r.known && len(r.segments) < maxExactSegments && e.kept < maxKept
}

// shrink gives memory back that a thread's segments no longer need.
func (r *streamThread) shrink() {
	if cap(r.segments) <= keptSegments {
		return
	}
	r.most = max(r.most, len(r.segments))
	if r.readings++; r.readings < shrinkReadings {
		return
	}
	if r.most < cap(r.segments)/4 {
		r.segments = make([]segment, 0, max(2*r.most, maxSegments))
	}
	r.most, r.readings = 0, 0
}

// forget lets go of a thread that is no longer listed.
func (e *exactStream) forget(r *streamThread) {
	if e.holder == r {
		e.holder = nil
	}
	if e.chosen == r {
		e.chosen = nil
	}
	if e.lonely == r {
		e.lonely = nil
	}
}

// fill says of a wait what changes said.
func (e *exactStream) fill(r *streamThread, w *Wait) {
	w.Exact, w.FirstHolder = true, r.first
	w.NoCPUNS = min(max(r.noCPUNS, 0), w.NS())
	if r.chosenNS != 0 {
		w.HandoverNS = max(w.ToNS-max(r.chosenNS, w.FromNS), 0)
	}
	switch h := e.holder; {
	case h != nil && h != r:
		w.LastHolder = h.id
	case e.last != r.id:
		w.LastHolder = e.last
	}
}

// handOutLate hands out the waits of threads that were new, of which all have heard now.
func (s *Stream) handOutLate() {
	e := &s.exact
	if len(e.late) == 0 {
		return
	}
	for i := range e.late {
		for _, c := range s.to {
			c.Waited(&e.late[i])
		}
	}
	if e.late = e.late[:0]; cap(e.late) > keptWaits {
		e.late = nil
	}
}

// feedExact takes a sample with all changes since the last one.
func (s *Stream) feedExact(x *sampler.Sample, states []ThreadState, st step) {
	e := &s.exact
	e.step, e.sample, e.states = st, x, states
	e.recs, e.sub, e.subLast = e.recs[:0], nil, -1
	for i := range states {
		ts := &states[i]
		rec, fresh := s.table.at(i, ts.Thread)
		if rec == nil {
			e.recs, s.slots = append(e.recs, nil), append(s.slots, -1)
			continue
		}
		r := &rec.v
		if fresh {
			s.list(r, ts)
			s.begun = append(s.begun, i)
			r.unbegun, r.begun = true, false
			r.look, r.stackState = lookAt(&x.Threads[i]), ts.State
		}
		if e.sub == nil && ts.State.Held() && r.ractor == mainRactor {
			e.sub, e.subAt = r, i
		}
		e.recs, s.slots = append(e.recs, r), append(s.slots, r.slot)
	}
	if !e.live {
		s.countLane(st)
		if e.short == nil {
			e.short = make(map[int32]unlistedThread)
		}
	}
	e.live = true
	s.mainLane()
	s.replay(&x.Changes)
	for i, r := range e.recs {
		if r != nil {
			s.atSample(r, &states[i], &x.Threads[i])
		}
	}
	s.missedUnlisted()
	s.table.end(func(rec *record[streamThread]) { s.gone(&rec.v, s.goneNS(&rec.v), false) })
	e.sample, e.states = nil, nil
}
