package stream

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// gvlWait is a wait for the GVL, as changes of the GVL (sampler.Changes) show it.
type gvlWait struct {
	// exact is true if the beginning of the wait is known, and no change since then is missing.
	exact bool
	// chosenNS is when the thread was chosen as the next holder, or zero if it was not. fromNS is when the wait began.
	// noCPUNS is for how long the waiting thread lacked a CPU.
	fromNS, chosenNS, noCPUNS int64
	// first is the thread that held the GVL when the wait began.
	first sampler.ThreadID
}

// lacked adds ns to noCPUNS, the time for which the waiting thread lacked a CPU.
func (w *gvlWait) lacked(ns int64) {
	w.noCPUNS = min(w.noCPUNS, 1<<61) + min(max(ns, 0), 1<<61)
}

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

// fill adds to w what changes of the GVL have shown: the first and the last holder, and the time without a CPU. If the
// thread was chosen as the next holder, it also adds the time since then.
func (m *mainGVL) fill(w *gvl.Wait, of *gvlWait) {
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

func (m *mainGVL) endWait(w *gvlWait) {
	m.alone = slices.DeleteFunc(m.alone, func(x *gvlWait) bool { return x == w })
}
