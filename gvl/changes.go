package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// mainRactor is the one whose GVL sampler.Changes are about.
	mainRactor = sampler.RactorID(1)
	// keptWaits is how many waits of threads that are new there is memory for in any case.
	keptWaits = 1024
)

// notAsked is the Detail of time of which no sample tells what a thread had released the GVL for.
var notAsked = Detail{FD: -1, Reason: reasonNotAsked}

// mainGVL is the main ractor's GVL, as the changes of samples tell of it.
type mainGVL struct {
	s *Stream
	// live: the last step was cut by changes. toNS is until when changes are known. It is zero if none are.
	live bool
	toNS int64
	// holder holds the GVL, by changes or by the last sample; chosen is the next one to. They are nil if no thread does, or it is not known.
	holder, chosen *exact
	// unlisted is the native thread of a holder that no sample listed. last held the GVL last, and freedNS is when a thread gave it away
	// last. It is zero if that was not seen.
	unlisted int32
	last     sampler.ThreadID
	freedNS  int64
	// alone are the waits that began at aloneNS, when no thread held the GVL or was chosen.
	alone   []*gvlWait
	aloneNS int64
	// waits are those of threads that no sample listed, by their native threads.
	waits map[int32]*unlistedWait
	// laneAt is the place of its lane in Stream.locks.
	laneAt int
	// shown is what the sample at the end of the step being fed says of the holder.
	shown shownHolder
	// corrected are the states of a sample by what changes say of them.
	corrected []ThreadState
}

// shownHolder is the thread that a sample says holds the GVL, its index there, and the index of its last change, -1 if there is none.
type shownHolder struct {
	holder            *exact
	index, lastChange int
}

// gvlWait is what changes say of a wait.
type gvlWait struct {
	// exact: its begin is known, and all changes since.
	exact bool
	// fromNS is its begin, chosenNS is when the thread was chosen, 0 if it was not yet. For noCPUNS of it the thread was without a CPU.
	fromNS, chosenNS, noCPUNS int64
	// first held the GVL when it began.
	first sampler.ThreadID
}

// lacked adds time without a CPU, in ns.
func (w *gvlWait) lacked(ns int64) {
	w.noCPUNS = min(w.noCPUNS, 1<<61) + min(max(ns, 0), 1<<61)
}

// changes takes the changes of the sample being fed, as far as they can be used.
func (m *mainGVL) changes() {
	st, c := &m.s.step, &m.s.sample.Changes
	known := usable(m.s.sample)
	follows := known && m.precedes(c) && !st.gap
	if !follows && (m.live || m.toNS != 0) {
		m.lose()
	}
	if !known {
		return
	}
	if m.toNS = c.ToNS; st.first || st.gap {
		m.correct(c)
		return
	}
	m.s.lockOf(mainRactor, st.fromNS)
	if m.laneAt = m.s.lock; !m.live {
		m.begin()
	}
	m.show(c)
	m.replay(c)
}

// usable reports whether the changes of a sample can be used. Of a process that is held from outside they say that threads wait, which these do
// for whatever holds it.
func usable(x *sampler.Sample) bool {
	return !x.Proc.Halted() && x.Changes.Known() && len(x.Changes.List) <= sampler.MaxChanges
}

// precedes reports whether what is known goes up to where changes begin.
func (m *mainGVL) precedes(c *sampler.Changes) bool { return !c.Fresh && c.FromNS == m.toNS }

// tellsAll reports whether the changes of a sample tell of the whole time since the last one, however long that was.
func (m *mainGVL) tellsAll(x *sampler.Sample) bool {
	return m.live && usable(x) && m.precedes(&x.Changes)
}

// track chooses what tracks a thread.
func (m *mainGVL) track(r *thread) {
	if m.live && r.ractor == mainRactor {
		r.by = r.byChanges()
	} else {
		r.by = sampled{r}
	}
}

// lose forgets what changes said: what came after the last sample is not known by them.
func (m *mainGVL) lose() {
	clear(m.waits)
	*m = mainGVL{s: m.s, waits: m.waits, alone: m.alone[:0], corrected: m.corrected}
	for _, rec := range m.s.table.all() {
		r := &rec.v
		r.by.leave()
		if r.known {
			r.cut(m.s.step.fromNS)
			r.known, r.stepNS = false, m.s.step.lengthNS()
		}
		if r.unseen && !r.open {
			r.giveUp()
		}
		m.track(r)
	}
}

// correct takes from changes in what state threads are at the end of a step whose time is not cut, and corrects the sample's states by that.
func (m *mainGVL) correct(c *sampler.Changes) {
	now, holder := make(map[sampler.ThreadID]sampler.GVLState), sampler.ThreadID(0)
	for i := range c.List {
		g := &c.List[i]
		if g.Thread == 0 {
			continue
		}
		switch {
		case g.State == sampler.GVLHeld && holder != g.Thread:
			if holder != 0 {
				now[holder] = sampler.GVLReleased // one GVL has one holder
			}
			holder = g.Thread
		case g.State != sampler.GVLHeld && holder == g.Thread:
			holder = 0
		}
		now[g.Thread] = g.State
	}
	m.corrected = append(m.corrected[:0], m.s.states...)
	for i, r := range m.s.listed {
		if x := &m.corrected[i]; r != nil && x.Ractor == mainRactor {
			r.correct(x, now[x.Thread], holder != 0)
		}
	}
	m.s.states = m.corrected
}

// correct corrects what a sample says of a thread by the state that changes have brought it into. held: they say which thread holds the GVL.
func (r *thread) correct(x *ThreadState, g sampler.GVLState, held bool) {
	if g != sampler.GVLGone {
		e := r.byChanges()
		e.gvl, e.known, e.seen, e.against = g, true, true, 0
	}
	if !r.known {
		if x.State.Held() && held {
			x.State, x.Detail = Unknown, notAsked
		}
		return
	}
	switch is := placeOf(x.State); r.changes.gvl {
	case sampler.GVLReleased:
		if is != placeReleased {
			x.State, x.Detail = Unknown, notAsked
		}
	case sampler.GVLHeld:
		if is != placeHeld {
			x.State, x.Detail = Running, Detail{FD: -1}
		}
	case sampler.GVLQueued, sampler.GVLChosen:
		if is != placeWaiting {
			x.State, x.Detail = Waiting, Detail{FD: -1}
		}
		x.Detail.Wait = waitKind(r.changes.gvl)
	}
}

// waitKind is how a thread waits that is in the queue, or chosen.
func waitKind(g sampler.GVLState) WaitKind {
	if g == sampler.GVLChosen {
		return WaitHandover
	}
	return WaitQueue
}

// begin finds out who holds and waits by the last sample, before the first step that is cut by changes.
func (m *mainGVL) begin() {
	m.live = true
	if m.waits == nil {
		m.waits = make(map[int32]*unlistedWait)
	}
	at := m.s.step.fromNS
	l := m.lane()
	m.s.settleLock(l, at)
	l.now.Waiters, l.now.Unlisted = 0, Unlisted{}
	for _, rec := range m.s.table.all() {
		r := &rec.v
		if m.track(r); r.fresh || r.ractor != mainRactor {
			continue
		}
		switch e := r.changes; {
		case r.state == Waiting:
			if l.now.Waiters++; r.kind == WaitHandover {
				m.chosen = e
			}
		case r.state.Held() && m.holder != nil:
			e.enter(sampler.GVLReleased, at, false, false) // one GVL has one holder
			r.known = false
		case r.state.Held():
			m.holder, e.heldNS = e, r.stateNS
		}
	}
	switch h := m.holder; {
	case h == nil:
		l.vacate()
	case h.id != l.now.Thread:
		l.vacate()
		l.now.Thread, l.now.State, l.now.Stack, l.now.Serving = h.id, h.state, h.stack, h.serving
	}
}

// show finds the holder that the sample at the end of the step shows.
func (m *mainGVL) show(c *sampler.Changes) {
	m.shown = shownHolder{lastChange: -1}
	for i, r := range m.s.listed {
		if r != nil && r.ractor == mainRactor && m.s.states[i].State.Held() {
			m.shown.holder, m.shown.index = r.changes, i
			break
		}
	}
	for i := len(c.List) - 1; m.shown.holder != nil && i >= 0; i-- {
		if c.List[i].Thread == m.shown.holder.id {
			m.shown.lastChange = i
			break
		}
	}
}

// shownState is what the holder that the sample shows does.
func (m *mainGVL) shownState() (State, Detail) {
	ts := &m.s.states[m.shown.index]
	return ts.State, ts.Detail
}

// showHolder takes over what the sample has of the holder's stack.
func (m *mainGVL) showHolder(i *LockInterval) {
	t := &m.s.sample.Threads[m.shown.index]
	i.Stack, i.Serving = m.s.states[m.shown.index].Stack, t.Serving
	if t.Quality&sampler.StackFailed != 0 {
		i.Stack = 0
	}
	i.Turn = i.Stack
}

// shows reports whether the stretch in which the sample shows a thread with the GVL is the one that it is in before a change of the list.
func (m *mainGVL) shows(e *exact, c *sampler.Changes, before int) bool {
	last := m.shown.lastChange
	return e == m.shown.holder && last < before && (last < 0 || c.List[last].State == sampler.GVLHeld)
}

// replay goes through the changes of a step.
func (m *mainGVL) replay(c *sampler.Changes) {
	st := &m.s.step
	now, middle := st.fromNS, false
	for i := range c.List {
		g := &c.List[i]
		// What came before says in what state a thread is, and not since when.
		initial := c.Fresh && g.AtNS <= c.FromNS || g.AtNS <= st.fromNS
		at := g.AtNS
		if initial && at > st.fromNS {
			at = st.fromNS + (min(at, st.toNS)-st.fromNS)/2
		}
		now = min(max(at, now), st.toNS)
		if now > st.midNS && !middle {
			middle = true
			m.middle(c, i)
		}
		m.changed(c, i, now, initial)
	}
	if !middle {
		m.middle(c, len(c.List))
	}
}

// middle is the middle of a step: what the samples say of the holder's stretch changes there.
func (m *mainGVL) middle(c *sampler.Changes, before int) {
	h := m.holder
	if h == nil {
		return
	}
	now := m.lane().now
	to, d := Running, Detail{FD: -1}
	if h.told {
		to, d = h.state, h.detail // the kernel says when that changes
	}
	if m.shows(h, c, before) {
		if state, detail := m.shownState(); !h.told || state == to {
			to, d = state, detail
		}
		m.showHolder(&now)
	}
	now.State, now.GCReason, now.Stopped = to, d.GCReason, to == Stalled && halts(d.Syscall)
	was := h.state
	m.goesOn(h, &now, to, &d, m.s.step.midNS)
	if h.state != was {
		h.stepNS = m.s.step.lengthNS()
	}
}

// goesOn lets the holder of the GVL go on in a state. now is what its lane is from then on.
func (m *mainGVL) goesOn(h *exact, now *LockInterval, to State, d *Detail, at int64) {
	if l := m.lane(); *now != l.now {
		m.s.settleLock(l, at)
		now.FromNS, now.ToNS = l.now.FromNS, l.now.ToNS
		l.now = *now
	}
	if h.state != to {
		h.cut(at)
		h.state, h.stateNS, h.runNS, h.sinceNS, h.stepNS = to, at, at, at, 0
	}
	h.detail = *d
}

// changed takes the change at a place of the list.
func (m *mainGVL) changed(c *sampler.Changes, place int, at int64, initial bool) {
	g := &c.List[place]
	var e *exact
	if g.Thread != 0 {
		if rec := m.s.table.get(g.Thread); rec != nil {
			if rec.v.ractor != mainRactor {
				return
			}
			e = rec.v.changes
		}
	}
	sure := !g.Doubtful && !initial
	if e == nil {
		m.changedUnlisted(g, at, sure)
		return
	}
	before := m.waits[g.TID]
	if before != nil {
		m.endUnlisted(g.TID, at)
	}
	if e.fresh && !e.begun {
		if g.State == sampler.GVLGone {
			return
		}
		e.beginAt(at)
	}
	e.endedNS = 0
	e.waiting.lacked(g.NoCPUNS)
	if !sure {
		e.waiting.exact = false
		if g.Doubtful {
			e.stepNS = m.s.step.lengthNS()
		}
	}
	switch is := placeTo(g.State); {
	case g.State == sampler.GVLGone:
		e.enter(sampler.GVLReleased, at, false, false)
		e.known, e.endedNS = false, at
		return
	case g.Doing.Kind != sampler.DoingUnknown && e.known && e.gvl == g.State && !e.fresh:
		e.does(&g.Doing, at)
		return
	case is == placeHeld && g.Stack != 0 && e.gvl == sampler.GVLHeld && e.known && m.holder == e && !e.fresh:
		m.runs(e, g.Stack, at)
		return
	case is == placeHeld:
		m.held(e, c, place, at, sure)
	case is == placeWaiting, g.State == sampler.GVLReleased:
		e.enter(g.State, at, sure, false)
	default:
		return // of a damaged recording
	}
	if initial && e.stepNS == 0 {
		e.stepNS = m.s.step.lengthNS()
	}
	if before != nil && e.fresh && e.state == Waiting {
		e.goesOnAs(before)
	}
	if g.Doing.Kind != sampler.DoingUnknown {
		e.does(&g.Doing, at)
	}
}

// held takes a change by which a thread gets the GVL.
func (m *mainGVL) held(e *exact, c *sampler.Changes, place int, at int64, sure bool) {
	g, goesOn := &c.List[place], sampler.StackID(0)
	if g.Stack != 0 && e.state == Waiting {
		e.waitedWith(g.Stack, at)
		goesOn = g.Stack
		if !e.before.state.Held() && g.Resumes != 0 { // what it had released the GVL for is over
			goesOn = g.Resumes
		}
	}
	shows, late := m.shows(e, c, place+1), at > m.s.step.midNS
	e.enter(g.State, at, sure, shows && late)
	m.lane().now.Turn = goesOn
	if shows && (goesOn == 0 || late) {
		m.showHolder(&m.lane().now) // else from the middle of the step on
	}
}

// runs takes the stack that the holder of the GVL has at a time.
func (m *mainGVL) runs(e *exact, stack sampler.StackID, at int64) {
	e.read(look{stack, e.serving}, at)
	l := m.lane()
	m.s.settleLock(l, at)
	l.now.Stack = stack
}

// hold gives a thread the GVL.
func (m *mainGVL) hold(e *exact) {
	m.holder, m.unlisted = e, 0
	l := m.lane()
	l.vacate()
	l.now.Thread, l.now.State, l.now.GCReason = e.id, e.state, e.detail.GCReason
	l.now.Stopped = e.state == Stalled && halts(e.detail.Syscall)
}

// letGo takes the GVL from a thread.
func (m *mainGVL) letGo(e *exact, at int64) {
	m.last, m.freedNS = e.id, at
	if m.holder == e {
		m.holder = nil
		m.lane().vacate()
	}
}

// oust takes the GVL from its holder, whose change was not seen: another thread has it. That is nil if no sample listed it.
func (m *mainGVL) oust(by *exact, at int64) {
	if h := m.holder; h != nil && h != by {
		h.stepNS = m.s.step.lengthNS()
		h.enter(sampler.GVLReleased, at, false, false)
	}
}

// choose notes whether a thread is the next to hold the GVL. The waits that began in that moment, without a holder, are for it.
func (m *mainGVL) choose(e *exact, to sampler.GVLState, at int64) {
	switch {
	case to == sampler.GVLChosen:
		m.chosen = e
		if m.aloneNS == at && len(m.alone) > 0 {
			m.alone = slices.DeleteFunc(m.alone, func(w *gvlWait) bool {
				if w == &e.waiting {
					return false
				}
				w.first = e.id
				return true
			})
		}
	case m.chosen == e:
		m.chosen = nil
	}
}

// beginWait begins a wait, of a thread or of one that no sample listed.
func (m *mainGVL) beginWait(w *gvlWait, of *exact, at int64, sure bool) {
	*w = gvlWait{exact: sure, fromNS: at}
	switch {
	case m.holder != nil:
		w.first = m.holder.id
	case m.lane().now.Unlisted.Holds:
	case m.chosen != nil && m.chosen != of:
		w.first = m.chosen.id
	default:
		if m.aloneNS != at {
			m.alone = m.alone[:0]
		}
		m.alone, m.aloneNS = append(m.alone, w), at
	}
}

// fill says of a wait what changes said.
func (m *mainGVL) fill(w *Wait, of *gvlWait) {
	w.Exact, w.FirstHolder = true, of.first
	w.NoCPUNS = min(of.noCPUNS, w.NS())
	if of.chosenNS != 0 {
		w.HandoverNS = max(w.ToNS-max(of.chosenNS, w.FromNS), 0)
	}
	switch h := m.holder; {
	case h != nil && h.id != w.Thread:
		w.LastHolder = h.id
	case m.last != w.Thread:
		w.LastHolder = m.last
	}
}

// forget lets go of a thread that is no longer listed.
func (m *mainGVL) forget(e *exact) {
	if m.holder == e {
		m.holder = nil
	}
	if m.chosen == e {
		m.chosen = nil
	}
	m.endWait(&e.waiting)
}

// endWait forgets a wait.
func (m *mainGVL) endWait(w *gvlWait) {
	m.alone = slices.DeleteFunc(m.alone, func(x *gvlWait) bool { return x == w })
}

// heldByOther reports whether another thread holds the GVL, by changes.
func (m *mainGVL) heldByOther(e *exact) bool {
	h := m.holder
	return h != nil && h != e && h.known || m.lane().now.Unlisted.Holds
}

// heldSince is since when a thread holds the main ractor's GVL, by changes; ok is false where they don't say it.
func (s *Stream) heldSince(id sampler.ThreadID) (ns int64, ok bool) {
	h := s.main.holder
	if h == nil || h.id != id || !h.known {
		return 0, false
	}
	return h.heldNS, true
}

// lane is the lane of the GVL, which is where it is from the begin of a step to its end.
func (m *mainGVL) lane() *lockLane { return &m.s.locks[m.laneAt] }

// vacate lets nobody hold the GVL.
func (l *lockLane) vacate() {
	l.now = LockInterval{Ractor: l.now.Ractor, Waiters: l.now.Waiters, Unlisted: Unlisted{Waiters: l.now.Unlisted.Waiters}, FromNS: l.now.FromNS, ToNS: l.now.ToNS}
}
