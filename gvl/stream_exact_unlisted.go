package gvl

import "github.com/ddtop/ddtop/sampler"

const (
	// maxUnlisted bounds the threads that no sample has listed and that wait at a time; of more nothing is told.
	maxUnlisted = 1 << 12
	// unlistedSteps is in how many steps a thread can wait without a sample that lists it, before its end must have been missed.
	unlistedSteps = 3
)

// unlistedThread is one that waits for the GVL and that no sample has listed: new, or one of those that live too short a time. It has no
// slot, and no time of its own; what it waits and holds is told as of all such threads together.
type unlistedThread struct {
	exactWait                 bool
	waitNS, chosenNS, noCPUNS int64
	first                     sampler.ThreadID
	steps                     int
}

// unlisted takes a change of a thread that no sample listed.
func (s *Stream) unlisted(g *sampler.Change, at int64, sure bool) {
	e, l := &s.exact, s.mainLane()
	if l.now.Unlisted.Holds && g.TID == e.unlisted && g.State != sampler.GVLHeld {
		s.settleLock(l, at)
		l.now.Unlisted.Holds, e.last, e.freedNS = false, 0, at
	}
	u, waited := e.short[g.TID]
	if waited {
		u.noCPUNS = min(u.noCPUNS, 1<<61) + min(max(g.NoCPUNS, 0), 1<<61)
		u.exactWait = u.exactWait && sure
	}
	switch waits := g.State == sampler.GVLQueued || g.State == sampler.GVLChosen; {
	case waits && !waited:
		if len(e.short) >= maxUnlisted || g.TID == 0 {
			break
		}
		s.settleLock(l, at)
		l.now.Waiters++
		l.now.Unlisted.Waiters++
		u = unlistedThread{exactWait: sure, waitNS: at}
		switch {
		case e.holder != nil:
			u.first = e.holder.id
		case l.now.Unlisted.Holds:
		case e.chosen != nil:
			u.first = e.chosen.id
		default:
			if e.lonelyNS != at {
				e.lonely = nil
			}
			e.lonelyShort, e.lonelyNS = g.TID, at
		}
		fallthrough
	case waits:
		if g.State == sampler.GVLChosen && u.chosenNS == 0 {
			u.chosenNS = at
		}
		e.short[g.TID] = u
	case waited:
		if g.State == sampler.GVLHeld {
			s.unlistedWaited(&u, at)
		}
		s.noUnlisted(g.TID, at)
	}
	if g.State == sampler.GVLHeld {
		if h := e.holder; h != nil {
			h.stepNS = e.step.lengthNS()
			s.enter(h, sampler.GVLReleased, at, false, false)
		}
		s.settleLock(l, at)
		e.unlisted, l.now.Unlisted.Holds = g.TID, true
	}
}

// unlistedWaited hands out the wait of an unlisted thread that has the GVL now.
func (s *Stream) unlistedWaited(u *unlistedThread, at int64) {
	e := &s.exact
	if s.unchosen {
		u.chosenNS = e.freedNS
	}
	s.wait = Wait{FromNS: u.waitNS, ToNS: at, Slot: -1, Before: ThreadState{Ractor: mainRactor}}
	if u.exactWait {
		s.wait.Exact, s.wait.FirstHolder, s.wait.LastHolder = true, u.first, e.last
		if e.holder != nil {
			s.wait.LastHolder = e.holder.id
		}
		s.wait.NoCPUNS = min(u.noCPUNS, s.wait.NS())
		if u.chosenNS != 0 {
			s.wait.HandoverNS = max(at-max(u.chosenNS, u.waitNS), 0)
		}
	}
	s.wait.bound(&waitSpan{}, at, 0)
	for _, c := range s.to {
		c.Waited(&s.wait)
	}
}

// behindChosen lets an unlisted thread that came into an empty queue wait for the one that was chosen in the same moment.
func (e *exactStream) behindChosen(r *streamThread, at int64) {
	if u, ok := e.short[e.lonelyShort]; ok && e.lonelyNS == at {
		u.first = r.id
		e.short[e.lonelyShort] = u
	}
	e.lonelyShort = 0
}

// noUnlisted forgets an unlisted thread that waits.
func (s *Stream) noUnlisted(tid int32, at int64) {
	l := s.mainLane()
	s.settleLock(l, at)
	l.now.Waiters--
	l.now.Unlisted.Waiters--
	delete(s.exact.short, tid)
}

// listedNow lets a thread that a sample has listed in the meantime, and that is in a wait, go on with the wait it was in.
func (s *Stream) listedNow(r *streamThread, u *unlistedThread) {
	if !r.unbegun || placeOf(r.state) != placeWaiting {
		return
	}
	r.waitNS, r.first, r.noCPUNS, r.exactWait = u.waitNS, u.first, u.noCPUNS, r.exactWait && u.exactWait
	if u.chosenNS != 0 {
		r.chosenNS = u.chosenNS
	}
}

// missedUnlisted forgets unlisted threads of which a sample would have known by now.
func (s *Stream) missedUnlisted() {
	for tid, u := range s.exact.short {
		if u.steps++; u.steps > unlistedSteps {
			s.noUnlisted(tid, s.exact.step.toNS)
			continue
		}
		s.exact.short[tid] = u
	}
}
