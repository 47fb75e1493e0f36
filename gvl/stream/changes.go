package stream

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// MainRactor is the ractor whose GVL sampler.Changes describe.
	MainRactor = sampler.RactorID(1)
	// keptWaits limits the memory that Stream.late keeps for reuse between two samples. The unit is waits.
	keptWaits = 1024
)

// notAsked is the Detail of a thread that has released the GVL, if no sample has shown what it does.
var notAsked = gvl.Detail{FD: -1, Reason: gvl.ReasonNotAsked}

// mainGVL follows the GVL of the main ractor, the only one whose changes are known (sampler.Changes).
type mainGVL struct {
	s *Stream
	// live is true if changes were known for the last step (the time between two samples). The method replay has then
	// divided the step into intervals. toNS is the time up to which changes are known, or zero.
	live bool
	toNS int64
	// holder is the thread that holds the GVL, according to changes or the last sample. chosen is the thread that will
	// hold it next. They are nil if there is no such thread, or if it is not known.
	holder, chosen *exact
	// unlisted is the ID of the native thread that holds the GVL, if no sample listed the holder. The field last is the
	// thread that held the GVL last. freedNS is when the GVL was last released, or zero if this was not seen.
	unlisted int32
	last     sampler.ThreadID
	freedNS  int64
	// alone has the waits that began at aloneNS. At this time no thread held the GVL, and no thread was chosen as the
	// next holder.
	alone   []*gvlWait
	aloneNS int64
	// waits has the waits of threads that no sample listed. The key is the ID of the native thread.
	waits map[int32]*unlistedWait
	// laneAt is the index of the main ractor's GVL in Stream.locks.
	laneAt int
	// shown is the GVL's holder in the sample at the end of the step. A step is the time between two samples.
	shown shownHolder
	// corrected has the states of a sample after changes have corrected them.
	corrected []gvl.ThreadState
}

// shownHolder is the thread that holds the GVL in a sample. index is its place in Sample.Threads. lastChange is the
// index of the thread's last change in Changes.List, or -1 if it has no change.
type shownHolder struct {
	holder            *exact
	index, lastChange int
}

// changes applies the changes of the GVL in the current sample, if they can be used. It is called for each sample.
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
	m.s.lockOf(MainRactor, st.fromNS)
	if m.laneAt = m.s.lock; !m.live {
		m.begin()
	}
	m.show(c)
	m.replay(c)
}

// usable reports whether the changes of a sample can be used. They cannot be used if the process is stopped from
// outside: threads then seem to wait for the GVL, but no thread can give it to them.
func usable(x *sampler.Sample) bool {
	return !x.Proc.Halted() && x.Changes.Known() && len(x.Changes.List) <= sampler.MaxChanges
}

// precedes reports whether the changes c follow the known ones without a gap: they begin exactly at the time up to
// which changes are known.
func (m *mainGVL) precedes(c *sampler.Changes) bool { return !c.Fresh && c.FromNS == m.toNS }

// tellsAll reports whether a sample has all changes since the last sample, even if the last sample was long ago.
func (m *mainGVL) tellsAll(x *sampler.Sample) bool {
	return m.live && usable(x) && m.precedes(&x.Changes)
}

// track chooses the tracker of a thread: one that uses changes, or one that uses only samples.
func (m *mainGVL) track(r *thread) {
	if m.live && r.ractor == MainRactor {
		r.by = r.byChanges()
	} else {
		r.by = sampled{r}
	}
}

// lose discards everything that mainGVL has learned from changes. It is called if some changes since the last sample
// are missing.
func (m *mainGVL) lose() {
	clear(m.waits)
	*m = mainGVL{s: m.s, waits: m.waits, alone: m.alone[:0], corrected: m.corrected}
	for _, rec := range m.s.table.All() {
		r := &rec.V
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

// correct applies the changes of the first sample, or of the first sample after a gap. They do not show the past,
// because earlier changes are missing. So they only correct the threads' present states.
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
				now[holder] = sampler.GVLReleased // a GVL has only one holder
			}
			holder = g.Thread
		case g.State != sampler.GVLHeld && holder == g.Thread:
			holder = 0
		}
		now[g.Thread] = g.State
	}
	m.corrected = append(m.corrected[:0], m.s.states...)
	for i, r := range m.s.listed {
		if x := &m.corrected[i]; r != nil && x.Ractor == MainRactor {
			r.correct(x, now[x.Thread], holder != 0)
		}
	}
	m.s.states = m.corrected
}

// correct corrects x, the state of a thread in a sample. g is the state that changes show. held is true if changes show
// a holder of the GVL.
func (r *thread) correct(x *gvl.ThreadState, g sampler.GVLState, held bool) {
	if g != sampler.GVLGone {
		e := r.byChanges()
		e.gvl, e.known, e.seen, e.against = g, true, true, 0
	}
	if !r.known {
		if x.State.Held() && held {
			x.State, x.Detail = gvl.Unknown, notAsked
		}
		return
	}
	switch is := placeOf(x.State); r.changes.gvl {
	case sampler.GVLReleased:
		if is != gvl.PlaceReleased {
			x.State, x.Detail = gvl.Unknown, notAsked
		}
	case sampler.GVLHeld:
		if is != gvl.PlaceHeld {
			x.State, x.Detail = gvl.Running, gvl.Detail{FD: -1}
		}
	case sampler.GVLQueued, sampler.GVLChosen:
		if is != gvl.PlaceWaiting {
			x.State, x.Detail = gvl.Waiting, gvl.Detail{FD: -1}
		}
		x.Detail.Wait = waitKind(r.changes.gvl)
	}
}

func waitKind(g sampler.GVLState) gvl.WaitKind {
	if g == sampler.GVLChosen {
		return gvl.WaitHandover
	}
	return gvl.WaitQueue
}

// begin takes the holder and the waiting threads from the last sample. It is called before the first step in which
// changes are used, because changes do not show who held the GVL before.
func (m *mainGVL) begin() {
	m.live = true
	if m.waits == nil {
		m.waits = make(map[int32]*unlistedWait)
	}
	at := m.s.step.fromNS
	l := m.lane()
	m.s.settleLock(l, at)
	l.now.Waiters, l.now.Unlisted = 0, gvl.Unlisted{}
	for _, rec := range m.s.table.All() {
		r := &rec.V
		if m.track(r); r.fresh || r.ractor != MainRactor {
			continue
		}
		switch e := r.changes; {
		case r.state == gvl.Waiting:
			if l.now.Waiters++; r.kind == gvl.WaitHandover {
				m.chosen = e
			}
		case r.state.Held() && m.holder != nil:
			e.enter(sampler.GVLReleased, at, false, false) // a GVL has only one holder
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

func (m *mainGVL) show(c *sampler.Changes) {
	m.shown = shownHolder{lastChange: -1}
	for i, r := range m.s.listed {
		if r != nil && r.ractor == MainRactor && m.s.states[i].State.Held() {
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

func (m *mainGVL) shownState() (gvl.State, gvl.Detail) {
	ts := &m.s.states[m.shown.index]
	return ts.State, ts.Detail
}

// showHolder copies the stack of the GVL's holder from the sample to the interval i.
func (m *mainGVL) showHolder(i *gvl.LockInterval) {
	t := &m.s.sample.Threads[m.shown.index]
	i.Stack, i.Serving = m.s.states[m.shown.index].Stack, t.Serving
	if t.Quality&sampler.StackFailed != 0 {
		i.Stack = 0
	}
	i.Turn = i.Stack
}

// shows reports whether the sample at the step's end shows the same hold of the GVL that is in progress just before the
// change c.List[before]. For this, the thread e must hold the GVL and keep it until the sample.
func (m *mainGVL) shows(e *exact, c *sampler.Changes, before int) bool {
	last := m.shown.lastChange
	return e == m.shown.holder && last < before && (last < 0 || c.List[last].State == sampler.GVLHeld)
}

// replay applies the changes of a step.
func (m *mainGVL) replay(c *sampler.Changes) {
	st := &m.s.step
	now, middle := st.fromNS, false
	for i := range c.List {
		g := &c.List[i]
		// An initial change only shows the state that a thread already had. It does not show when this state began.
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

// middle is called at the middle of a step, just before the change c.List[before]. From then on, the holder has the
// state that the sample at the step's end shows.
func (m *mainGVL) middle(c *sampler.Changes, before int) {
	h := m.holder
	if h == nil {
		return
	}
	now := m.lane().now
	to, d := gvl.Running, gvl.Detail{FD: -1}
	if h.told {
		to, d = h.state, h.detail // a change from the kernel will report the end of this state
	}
	if m.shows(h, c, before) {
		if state, detail := m.shownState(); !h.told || state == to {
			to, d = state, detail
		}
		m.showHolder(&now)
	}
	now.State, now.GCReason, now.Stopped = to, d.GCReason, to == gvl.Stalled && gvl.Halts(d.Syscall)
	was := h.state
	m.goesOn(h, &now, to, &d, m.s.step.midNS)
	if h.state != was {
		h.stepNS = m.s.step.lengthNS()
	}
}

// goesOn changes the state of a holder that keeps the GVL. The parameter to is its new state from the time at on. The
// parameter now describes the interval of the GVL from this time on.
func (m *mainGVL) goesOn(h *exact, now *gvl.LockInterval, to gvl.State, d *gvl.Detail, at int64) {
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

func (m *mainGVL) changed(c *sampler.Changes, place int, at int64, initial bool) {
	g := &c.List[place]
	var e *exact
	if g.Thread != 0 {
		if rec := m.s.table.Get(g.Thread); rec != nil {
			if rec.V.ractor != MainRactor {
				return
			}
			e = rec.V.changes
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
	case is == gvl.PlaceHeld && g.Stack != 0 && e.gvl == sampler.GVLHeld && e.known && m.holder == e && !e.fresh:
		m.runs(e, g.Stack, at)
		return
	case is == gvl.PlaceHeld:
		m.held(e, c, place, at, sure)
	case is == gvl.PlaceWaiting, g.State == sampler.GVLReleased:
		e.enter(g.State, at, sure, false)
	default:
		return // the recording is damaged
	}
	if initial && e.stepNS == 0 {
		e.stepNS = m.s.step.lengthNS()
	}
	if before != nil && e.fresh && e.state == gvl.Waiting {
		e.goesOnAs(before)
	}
	if g.Doing.Kind != sampler.DoingUnknown {
		e.does(&g.Doing, at)
	}
}

func (m *mainGVL) held(e *exact, c *sampler.Changes, place int, at int64, sure bool) {
	g, goesOn := &c.List[place], sampler.StackID(0)
	if g.Stack != 0 && e.state == gvl.Waiting {
		e.waitedWith(g.Stack, at)
		goesOn = g.Stack
		// before the wait, the thread worked without the GVL, and this work has ended
		if !e.before.state.Held() && g.Resumes != 0 {
			goesOn = g.Resumes
		}
	}
	shows, late := m.shows(e, c, place+1), at > m.s.step.midNS
	e.enter(g.State, at, sure, shows && late)
	m.lane().now.Turn = goesOn
	if shows && (goesOn == 0 || late) {
		m.showHolder(&m.lane().now) // otherwise middle does this later
	}
}

func (m *mainGVL) runs(e *exact, stack sampler.StackID, at int64) {
	e.read(look{stack, e.serving}, at)
	l := m.lane()
	m.s.settleLock(l, at)
	l.now.Stack = stack
}

func (m *mainGVL) hold(e *exact) {
	m.holder, m.unlisted = e, 0
	l := m.lane()
	l.vacate()
	l.now.Thread, l.now.State, l.now.GCReason = e.id, e.state, e.detail.GCReason
	l.now.Stopped = e.state == gvl.Stalled && gvl.Halts(e.detail.Syscall)
}

func (m *mainGVL) letGo(e *exact, at int64) {
	m.last, m.freedNS = e.id, at
	if m.holder == e {
		m.holder = nil
		m.lane().vacate()
	}
}

// oust ends the hold of the present holder, because a change shows that another thread has got the GVL. The change that
// ended the hold is missing. The parameter by is the other thread. It is nil if no sample listed this thread.
func (m *mainGVL) oust(by *exact, at int64) {
	if h := m.holder; h != nil && h != by {
		h.stepNS = m.s.step.lengthNS()
		h.enter(sampler.GVLReleased, at, false, false)
	}
}

// choose notes whether the thread e is chosen as the next holder. Other threads may have begun to wait at this very
// time, while no thread held the GVL. Then e becomes the first holder of their waits.
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

func (m *mainGVL) forget(e *exact) {
	if m.holder == e {
		m.holder = nil
	}
	if m.chosen == e {
		m.chosen = nil
	}
	m.endWait(&e.waiting)
}

// heldByOther reports whether another thread holds the GVL, according to changes.
func (m *mainGVL) heldByOther(e *exact) bool {
	h := m.holder
	return h != nil && h != e && h.known || m.lane().now.Unlisted.Holds
}

// HeldSince returns the time since which a thread has held the main ractor's GVL. ok is false if changes do not show
// it.
func (s *Stream) HeldSince(id sampler.ThreadID) (ns int64, ok bool) {
	h := s.main.holder
	if h == nil || h.id != id || !h.known {
		return 0, false
	}
	return h.heldNS, true
}

// lane returns the record of the main ractor's GVL in Stream.locks. The pointer is valid within a step.
func (m *mainGVL) lane() *lockLane { return &m.s.locks[m.laneAt] }

func (l *lockLane) vacate() {
	l.now = gvl.LockInterval{Ractor: l.now.Ractor, Waiters: l.now.Waiters, Unlisted: gvl.Unlisted{Waiters: l.now.Unlisted.Waiters}, FromNS: l.now.FromNS, ToNS: l.now.ToNS}
}
