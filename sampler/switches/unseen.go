package switches

import (
	"cmp"
	"slices"
)

// sight says that a record of another thread saw the thread at address own the GVL, at a time.
type sight struct {
	address uint64
	ns      int64
}

// see notes which thread a record shows as the GVL's owner, if it is another one than the record's own.
func (m *Machine) see(r *Record) {
	if r.Owner != 0 && r.Owner != r.Thread {
		m.sights[m.sight] = sight{r.Owner, r.NS}
		m.sight = (m.sight + 1) % maxTurns
	}
}

// slept reports whether another thread than t slept with the GVL until the time ns. If t wakes this thread, t does not
// give it the GVL. From Ruby 3.3 on, a thread can hold the GVL and wait for a mutex of the scheduler that t gives back.
func (m *Machine) slept(t *thread, ns int64) bool {
	h := m.holder
	return h != nil && h != t && h.state == running && h.out && h.atNS < ns
}

// clue says whether a thread had the GVL at a time.
type clue struct {
	ns  int64
	had bool
}

// clues returns what other threads' records show of t between two times, in order: when t owned the GVL, and when
// another thread held it. The result is valid until the next call.
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

// regained handles a thread that gave the GVL away at the time gave, and has it at the time to. It returns when the
// hold at that time began. Holds in between are added to the thread's.
//
// Up to Ruby 3.2, a thread often takes the GVL back before the thread that it woke has a CPU. If no other thread had
// the GVL since, regained assumes this. Otherwise the thread worked without the GVL until that thread had it. It cannot
// have waited for the GVL in between, because then it would have lost its CPU. What happened between two clues is not
// known. So regained takes the middle, or divides the time as usual for this thread (held).
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

// since returns when a thread that had no GVL at the time from, and has it at the time to, got it. It has been in code
// without the GVL, and other threads had the GVL in the meantime. So it got the GVL after them, and before the first of
// them saw it as the owner.
func (m *Machine) since(t *thread, from, to int64) int64 {
	last, seen := m.without(t, from, to)
	return last + (seen-last)/2
}

// without returns what other threads' records show of a thread without the GVL at the time from. last is the last time
// at which another thread still held the GVL. seen is the first time at which one of them saw t as the owner, or to.
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
	// leastTicks is how many ticks of the clock a thread needs before their share is used. From mostTicks on, all
	// earlier ticks count half.
	leastTicks, mostTicks = 8, 128
	// leastFreeNS is the shortest time without the GVL that is worth two changes, in ns.
	leastFreeNS = 20_000
)

// countTick counts the first clock tick after a system call, while the thread has a CPU. Further ticks would let one
// long time without the GVL count for many calls. free is true if the thread has no GVL, and does not send. The time
// before it loses its CPU in a call that sends is known (sends).
func (t *thread) countTick(free bool) {
	if t.ticks++; free {
		t.free++
	}
	if t.ticks >= mostTicks {
		t.ticks, t.free = t.ticks/2, t.free/2
	}
}

// held returns how long a thread held the GVL in a time on a CPU with an unknown part without the GVL, in ns.
func (t *thread) held(ns int64) int64 {
	if t.ticks < leastTicks {
		return ns / 2
	}
	return ns - t.without(ns)
}

// without returns how long a thread was without the GVL in a time on a CPU, in ns. The time began and ended with a
// system call. No record shows this: the thread can give the GVL away and take it back without any call. But ticks of
// the clock come at times that do not depend on what the thread does. So the share of ticks without the GVL is the
// share of time without it.
func (t *thread) without(ns int64) int64 {
	if t.ticks < leastTicks {
		return 0
	}
	return int64(float64(ns) * float64(t.free) / float64(t.ticks))
}

// freeWithin takes the GVL from a running thread in the middle of a time, by the part that the thread is usually
// without it. While a thread waits for the GVL, the holder cannot give it away unseen.
func (m *Machine) freeWithin(t *thread, r *Record, from, to int64) {
	free := t.without(to - from)
	if free < leastFreeNS || m.waiters > 0 || t.state != running {
		return
	}
	middle := from + (to-from-free)/2
	m.move(t, r, middle, released)
	m.move(t, r, middle+free, running)
}

// turnsOf notes a hold of the GVL that no record shows. If whole is true, the time began and ended with a system call,
// and the thread may have been without the GVL in between.
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

// turnOf adds a hold of the GVL, between from and to, that no record shows. It leaves out the time in which another
// thread had the GVL.
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
