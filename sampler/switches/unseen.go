package switches

import (
	"cmp"
	"slices"
)

// sight is one observation of the GVL's owner. At the time ns, a record of another thread showed the thread with this
// address as the owner.
type sight struct {
	address uint64
	ns      int64
}

// see remembers which thread a record shows as the GVL's owner. It ignores the owner's own records.
func (m *Machine) see(r *Record) {
	if r.Owner != 0 && r.Owner != r.Thread {
		m.sights[m.sight] = sight{r.Owner, r.NS}
		m.sight = (m.sight + 1) % maxTurns
	}
}

// slept reports whether another thread than t slept with the GVL until a time (ns). If t wakes this thread up, t does
// not give it the GVL. This occurs from Ruby 3.3 on: a thread sleeps although it holds the GVL, and waits until t gives
// back a mutex of the scheduler.
func (m *Machine) slept(t *thread, ns int64) bool {
	h := m.holder
	return h != nil && h != t && h.state == running && h.out && h.atNS < ns
}

// clue says whether a thread had the GVL at the time ns.
type clue struct {
	ns  int64
	had bool
}

// clues returns what other threads' records show about t between two times (from, to), in order of time. Each clue says
// that t owned the GVL at a time, or that another thread held it at that time. The result is valid until the next call.
func (m *Machine) clues(t *thread, from, to int64) []clue {
	m.found = m.found[:0]
	add := func(ns int64, had bool) {
		if ns > from && ns < to {
			m.found = append(m.found, clue{ns, had})
		}
	}
	for i := range m.sights {
		if m.sights[i].address == t.address {
			add(m.sights[i].ns, true)
		}
	}
	for i := range m.turns {
		if s := &m.turns[i]; s.tid != t.tid {
			add(s.fromNS, false)
			add(s.toNS, false)
		}
	}
	if h := m.holder; h != nil && h != t {
		add(h.sinceNS, false)
		add(h.atNS, false)
	}
	slices.SortFunc(m.found, func(a, b clue) int { return cmp.Compare(a.ns, b.ns) })
	return m.found
}

// regained handles a thread that gave the GVL away at one time (gave), and has it again at a later time (to). It
// returns when the thread got it back. If the thread had further holds in between, regained adds them.
//
// Up to Ruby 3.2, a thread often takes the GVL back before the thread that it woke has a CPU. If no clue shows another
// holder in between, regained assumes that the thread did so. If a clue shows another holder, the thread worked without
// the GVL until after this holder's hold. The thread cannot have waited for the GVL in between, because then it would
// have lost its CPU. It is not known what happened between two clues. So regained takes the middle of this time, or
// divides the time as usual for this thread (held).
func (m *Machine) regained(t *thread, r *Record, gave, to int64) (back int64) {
	soon := min(gave+againNS, gave+(to-gave)/2)
	last, had := gave, false
	changed := func(ns int64) int64 {
		if last == gave && !had {
			return min(soon, ns)
		}
		return last + (ns-last)/2
	}
	for _, c := range m.clues(t, gave, to) {
		if c.had && !had {
			back = changed(c.ns)
		}
		if !c.had && had {
			m.turnOf(t, r, back, last+(c.ns-last)/2)
		}
		last, had = c.ns, c.had
	}
	switch {
	case had:
		return back
	case last == gave && t.ticks < leastTicks:
		return soon
	case last == gave:
		return to - t.held(to-soon)
	}
	return to - t.held(to-last)
}

// since handles a thread that had no GVL at one time (from), and has it at a later time (to). It returns when the
// thread got the GVL. This was after the last hold of another thread, and before another thread's record first shows
// this thread as the owner.
func (m *Machine) since(t *thread, from, to int64) int64 {
	last, seen := m.without(t, from, to)
	return last + (seen-last)/2
}

// without handles a thread that had no GVL at one time (from), and has it at a later time (to). The thread got the GVL
// between the results last and seen. Other threads' records show these two times. last is the last time at which
// another thread still held the GVL. seen is the first time at which another thread's record shows t as the owner. If
// there is no such record, seen is the later time (to).
func (m *Machine) without(t *thread, from, to int64) (last, seen int64) {
	for _, c := range m.clues(t, from, to) {
		if c.had {
			return from, c.ns
		}
		from = c.ns
	}
	return from, to
}

const (
	// leastTicks is how many clock ticks of a thread must be counted before ddtop uses them to estimate the thread's
	// time without the GVL. When the number of ticks reaches mostTicks, this number is halved, so that old ticks have
	// less weight.
	leastTicks, mostTicks = 8, 128
	// leastFreeNS is the shortest time without the GVL that is reported as two changes (giving the GVL away, and
	// getting it back), in ns.
	leastFreeNS = 20_000
)

// countTick counts the first clock tick after a system call, while the thread has a CPU. It is not called for further
// ticks after the same call. Otherwise one long time without the GVL would have the weight of many calls. The parameter
// free is true if the thread has no GVL, and is not in a call that sends little. For such a call, ddtop already knows
// the time without the GVL (sends).
func (t *thread) countTick(free bool) {
	if t.ticks++; free {
		t.free++
	}
	if t.ticks >= mostTicks {
		t.ticks, t.free = t.ticks/2, t.free/2
	}
}

// held estimates how long a thread held the GVL during ns, a time on a CPU. For a part of this time, the thread had no
// GVL, but no record says for how long. All times are in ns.
func (t *thread) held(ns int64) int64 {
	if t.ticks < leastTicks {
		return ns / 2
	}
	return ns - t.without(ns)
}

// without estimates how long a thread had no GVL during ns, a time on a CPU between two system calls. All times are in
// ns. No record shows this, because the thread can give the GVL away and take it back without any call. But clock ticks
// come at times that do not depend on what the thread does. So the share of ticks without the GVL is about the share of
// time without it.
func (t *thread) without(ns int64) int64 {
	if t.ticks < leastTicks {
		return 0
	}
	return int64(float64(ns) * float64(t.free) / float64(t.ticks))
}

// freeWithin handles the time between from and to, in which a thread ran. It adds a period without the GVL in the
// middle of this time. The length of the period follows from the share of time that this thread is usually without the
// GVL. It adds nothing while another thread waits for the GVL. During such a wait, the holder cannot give the GVL away
// without a record.
func (m *Machine) freeWithin(t *thread, r *Record, from, to int64) {
	free := t.without(to - from)
	if free < leastFreeNS || m.waiters > 0 || t.state != running {
		return
	}
	middle := from + (to-from-free)/2
	m.move(t, r, middle, released)
	m.move(t, r, middle+free, running)
}

// turnsOf adds one or two holds of the GVL that no record shows, between the times from and to. If whole is true, a
// system call was at the beginning and at the end of this time. Then the thread may have been without the GVL in the
// middle, and turnsOf adds two holds.
func (m *Machine) turnsOf(t *thread, r *Record, from, to int64, whole bool) {
	free := t.without(to - from)
	if !whole || free < leastFreeNS || m.waiters > 0 {
		m.turnOf(t, r, from, to)
		return
	}
	middle := from + (to-from-free)/2
	m.turnOf(t, r, from, middle)
	m.turnOf(t, r, middle+free, to)
}

// turnOf adds a hold of the GVL that no record shows, between the times from and to. It leaves out the part of this
// time in which another thread had the GVL.
func (m *Machine) turnOf(t *thread, r *Record, from, to int64) {
	clip := func(s *span) {
		if s.tid == t.tid || s.toNS <= from || s.fromNS >= to {
			return
		}
		if s.fromNS-from > to-s.toNS {
			to = s.fromNS
		} else {
			from = s.toNS
		}
	}
	for i := range m.turns {
		clip(&m.turns[i])
	}
	if h := m.holder; h != nil {
		clip(&span{h.tid, h.sinceNS, max(to, h.sinceNS)})
	}
	if from < to {
		m.move(t, r, from, running)
		m.move(t, r, to, released)
	}
}
