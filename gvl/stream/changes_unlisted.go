package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxUnlisted limits how many waiting threads are followed at a time although no sample has listed them.
	maxUnlisted = 1 << 12
	// unlistedSteps is how many steps (times between two samples) a thread can wait without being listed by a sample.
	// If it seems to wait longer, the change at the end of its wait is missing.
	unlistedSteps = 3
)

// unlistedWait is a wait for the GVL of a thread that no sample has listed, because the thread is new or lived too
// briefly. The thread has no slot and no intervals. All such threads are reported together.
type unlistedWait struct {
	gvlWait
	steps int
}

func (m *mainGVL) changedUnlisted(g *sampler.Change, at int64, sure bool) {
	l := m.lane()
	if l.now.Unlisted.Holds && g.TID == m.unlisted && g.State != sampler.GVLHeld {
		m.s.settleLock(l, at)
		l.now.Unlisted.Holds, m.last, m.freedNS = false, 0, at
	}
	w, is := m.waits[g.TID], placeTo(g.State)
	if w != nil {
		w.lacked(g.NoCPUNS)
		w.exact = w.exact && sure
	} else if is == gvl.PlaceWaiting && len(m.waits) < maxUnlisted && g.TID != 0 {
		m.s.settleLock(l, at)
		l.now.Waiters++
		l.now.Unlisted.Waiters++
		w = new(unlistedWait)
		m.beginWait(&w.gvlWait, nil, at, sure)
		m.waits[g.TID] = w
	}
	switch {
	case w == nil:
	case is != gvl.PlaceWaiting:
		if is == gvl.PlaceHeld {
			m.waitedUnlisted(&w.gvlWait, at)
		}
		m.endUnlisted(g.TID, at)
	case g.State == sampler.GVLChosen && w.chosenNS == 0:
		w.chosenNS = at
	}
	if is == gvl.PlaceHeld {
		m.oust(nil, at)
		m.s.settleLock(l, at)
		m.unlisted, l.now.Unlisted.Holds = g.TID, true
	}
}

func (m *mainGVL) waitedUnlisted(of *gvlWait, at int64) {
	s := m.s
	if s.unchosen {
		of.chosenNS = m.freedNS
	}
	s.wait = gvl.Wait{FromNS: of.fromNS, ToNS: at, Slot: -1, Before: gvl.ThreadState{Ractor: MainRactor}}
	if of.exact {
		m.fill(&s.wait, of)
	}
	s.wait.SetBounds(&gvl.WaitSpan{}, at, 0)
	s.handOutWait()
}

func (m *mainGVL) endUnlisted(tid int32, at int64) {
	l := m.lane()
	m.s.settleLock(l, at)
	l.now.Waiters--
	l.now.Unlisted.Waiters--
	m.endWait(&m.waits[tid].gvlWait)
	delete(m.waits, tid)
}

// goesOnAs continues a wait that began before a sample listed the thread. w is this wait.
func (e *exact) goesOnAs(w *unlistedWait) {
	e.waitNS = w.fromNS
	e.waiting = gvlWait{
		exact: e.waiting.exact && w.exact, fromNS: w.fromNS, first: w.first, noCPUNS: w.noCPUNS, chosenNS: e.waiting.chosenNS,
	}
	if w.chosenNS != 0 {
		e.waiting.chosenNS = w.chosenNS
	}
}

// missedUnlisted ends waits of unlisted threads that seem to last for too many steps. If such a thread still waited, a
// sample would have listed it by now. So the real end of its wait was missed.
func (m *mainGVL) missedUnlisted() {
	if !m.live {
		return
	}
	for tid, w := range m.waits {
		if w.steps++; w.steps > unlistedSteps {
			m.endUnlisted(tid, m.s.step.toNS)
		}
	}
}
