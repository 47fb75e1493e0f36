package switches

import (
	"cmp"
	"slices"
)

// These are limits for conclusions about what a thread did. ddtop draws the conclusions from moves: the times at which
// threads get and lose a CPU. Times are in ns.
const (
	// briefNS is the longest time, in ns, that a thread runs after waking up until it queues for the GVL.
	briefNS = 50_000
	// ranNS is a time on a CPU, in ns. A thread that had a CPU for at least this long must have run Ruby code.
	ranNS = 30_000
	// sliceNS helps to guess why a thread lost its CPU and slept while others wait for the GVL. If more than sliceNS
	// has passed since the thread woke up, it has probably used up its time slice and lost the GVL.
	// Otherwise the thread probably wanted to sleep. A time slice begins with the thread's hold, or when the first
	// other thread begins to wait.
	sliceNS = 5_000_000
	// maxMoves limits how many moves are stored until the next Glance. Further moves are dropped. The records from Look
	// may then be wrong, so Look reports the loss.
	maxMoves = 1 << 18
	// recentThreads is the size of a cache, and a power of two. If a thread is in the cache, ddtop need not search for
	// it in a map.
	recentThreads = 64
)

// A MoveKind is the kind of a Move, such as getting a CPU.
type MoveKind uint8

const (
	// Got means that the thread gets a CPU.
	Got MoveKind = iota
	// Slept means that the thread goes to sleep. Preempted means that it loses its CPU and remains runnable.
	Slept
	Preempted
	// Ended means that the native thread ends.
	Ended
)

// A Move is one event of a thread: it gets or loses a CPU, or ends.
type Move struct {
	NS   int64
	TID  int32
	Kind MoveKind
}

// Words are the words of Ruby's memory about one thread, read at a Glance. The fields have the same meaning as in
// Record.
type Words struct {
	TID                              int32
	Thread                           uint64
	Queued, Linked, Region, Runnable bool
	DelayNS                          int64
}

// Glance is the result of one reading of Ruby's memory, made between FromNS and ToNS.
type Glance struct {
	FromNS, ToNS int64
	// Owner is the thread that owned the GVL. It was read at FromNS and at ToNS. Sure is false if the two readings
	// showed different owners.
	Owner    uint64
	Sure     bool
	Before33 bool
	// Threads are the threads that were read.
	Threads []Words
}

// Movements makes Records from the moves of threads (getting or losing a CPU), and from glances (readings of Ruby's
// memory). A glance shows what a thread does while it has no CPU. If the thread gets a CPU again before there is a
// glance, Movements concludes from the moves of all threads what this thread did. Only one goroutine may use it.
type Movements struct {
	threads map[int32]*mover
	// recent is a cache of threads, by the TID modulo recentThreads.
	recent [recentThreads]*mover
	moves  []Move
	// round counts how often Look was called.
	round   uint64
	dropped bool
	// changed is true if a thread has moved during or since the last Glance.
	changed bool
	// Seen counts the sleeps for which a Glance showed what the thread did. Concluded counts the other sleeps, for
	// which ddtop had to conclude this from moves.
	Seen, Concluded uint64
	out             func(*Record)
	before33        bool
	// active counts the Ruby threads that have a CPU or want one. waiters counts the threads that wait for the GVL.
	active, waiters int
	// holder is the thread that was last seen to hold the GVL. It is nil if there is none.
	holder *mover
}

type mover struct {
	tid   int32
	words Words
	// moved is the number of the round in which the thread last moved, or was last marked as moved. A round is a call
	// of the method Look.
	moved uint64
	is    state
	on    bool
	// preempted is true if the thread has no CPU and is runnable.
	preempted bool
	// inNS is when the thread got a CPU after its last sleep. gotNS is when it got the CPU that it has now. ranNS is
	// its time on a CPU since inNS. outNS is when it last lost a CPU. All are in ns.
	inNS, gotNS, ranNS, outNS int64
	// firstNS is when the thread got a CPU for the first time after ddtop last knew what it did. It is zero if the
	// thread has got no CPU since then.
	firstNS int64
	// gave is true if the thread has given the GVL away, then lost its CPU to another thread, and has not slept since.
	// went is true if the thread went to sleep soon after it gave the GVL away.
	gave, went bool
	// told is true if ddtop knows what the thread does while it has no CPU. busy is true if another thread had or
	// wanted a CPU at outNS. queue is true if another thread waited for the GVL at outNS.
	told, busy, queue bool
	// lookedNS is the time of the last Glance at the thread since it moved.
	lookedNS int64
	// steps grows each time the thread has run Ruby code. In records that are made from moves, it stands for the
	// thread's place in the code (Record.CFP), because moves do not show this place.
	steps uint64
	moves uint64
}

// NewMovements returns Movements of no thread yet.
func NewMovements() *Movements {
	return &Movements{threads: make(map[int32]*mover)}
}

// Begin starts to follow a thread that already exists. The parameter on is true if the thread has a CPU or wants one.
func (m *Movements) Begin(tid int32, on bool) {
	if t := m.thread(tid); t != nil && t.moves == 0 {
		m.set(t, on, false)
	}
}

// Moved adds an event. The caller must add the events of one thread in the order of time.
func (m *Movements) Moved(e Move) {
	if len(m.moves) >= maxMoves {
		m.moves, m.dropped = m.moves[:0], true
	}
	m.moves = append(m.moves, e)
}

// Any reports whether any thread has moved since the last glance, or has a CPU.
func (m *Movements) Any() bool {
	return len(m.moves) > 0 || m.active > 0 || m.changed
}

// Busy reports whether a Ruby thread has a CPU or wants one, or waits for the GVL.
func (m *Movements) Busy() bool { return m.active > 0 || m.waiters > 0 }

// Wanted reports whether a glance must read a thread, because the thread may have moved since the last glance.
func (m *Movements) Wanted(tid int32) bool {
	t := m.threads[tid]
	return t == nil || t.words.Thread == 0 || t.on || t.preempted || !t.told || t.moved == m.round
}

// Note marks the threads of all moves that were not applied yet. Wanted then returns true for these threads.
func (m *Movements) Note() {
	for i := range m.moves {
		if t := m.thread(m.moves[i].TID); t != nil {
			t.moved = m.round
		}
	}
}

// Forget drops a thread that has ended.
func (m *Movements) Forget(tid int32) {
	if t := m.threads[tid]; t != nil {
		m.count(t, -1)
		if m.holder == t {
			m.holder = nil
		}
		delete(m.threads, tid)
		if at := &m.recent[uint32(tid)%recentThreads]; *at == t {
			*at = nil
		}
	}
}

// Pass applies the moves up to a time, without a glance. It calls the function out with the resulting records. After
// Pass, callers must not add moves from before this time.
func (m *Movements) Pass(untilNS int64, out func(*Record)) {
	m.out = out
	m.pass(untilNS)
	m.out = nil
}

func (m *Movements) pass(untilNS int64) {
	slices.SortStableFunc(m.moves, func(a, b Move) int { return cmp.Compare(a.NS, b.NS) })
	n := 0
	for ; n < len(m.moves) && m.moves[n].NS < untilNS; n++ {
		e := &m.moves[n]
		m.take(e)
		if t := m.threads[e.TID]; t != nil {
			t.moved = m.round
		}
	}
	m.moves = slices.Delete(m.moves, 0, n)
}

// Look applies a glance, and all moves until the end of the glance. It calls the function out with the resulting
// records, roughly in order of time. It reports whether moves were dropped since the last glance.
func (m *Movements) Look(g *Glance, out func(*Record)) (dropped bool) {
	m.out, m.before33 = out, g.Before33
	m.pass(g.FromNS)
	m.round++
	m.changed = false
	n := 0
	for _, e := range m.moves {
		if e.NS > g.ToNS {
			break
		}
		if t := m.thread(e.TID); t != nil {
			t.moved = m.round
		}
	}
	m.glance(g)
	for ; n < len(m.moves) && m.moves[n].NS <= g.ToNS; n++ {
		m.take(&m.moves[n])
	}
	m.moves = slices.Delete(m.moves, 0, n)
	m.out = nil
	dropped, m.dropped = m.dropped, false
	return dropped
}

func (m *Movements) thread(tid int32) *mover {
	at := &m.recent[uint32(tid)%recentThreads]
	if t := *at; t != nil && t.tid == tid {
		return t
	}
	t := m.threads[tid]
	if t == nil {
		if len(m.threads) >= maxThreads {
			return nil
		}
		t = &mover{tid: tid}
		m.threads[tid] = t
	}
	*at = t
	return t
}

func (m *Movements) take(e *Move) {
	t := m.thread(e.TID)
	if t == nil {
		return
	}
	t.moves++
	m.changed = true
	switch e.Kind {
	case Got:
		if !t.on && (!t.preempted || t.gave) {
			if t.outNS != 0 && !t.told {
				m.conclude(t)
			}
			t.inNS, t.ranNS = e.NS, 0
		}
		m.set(t, true, false)
		t.gotNS = e.NS
		if t.firstNS == 0 {
			t.firstNS = e.NS
		}
	case Slept, Preempted:
		if t.on {
			t.ranNS += max(e.NS-t.gotNS, 0)
		}
		m.set(t, false, e.Kind == Preempted)
		t.outNS, t.told, t.lookedNS = e.NS, false, 0
		t.busy, t.queue = m.active > 0, m.othersWait(t)
		if e.Kind == Slept {
			t.went, t.gave = t.gave && t.ranNS < briefNS, false
			if t.ranNS >= ranNS {
				t.steps++
			}
		}
	case Ended:
		if t.words.Thread != 0 {
			m.out(&Record{Kind: Exited, NS: e.NS, InNS: t.inNS, TID: e.TID, Thread: t.words.Thread, Before33: m.before33})
		}
		m.Forget(e.TID)
	}
}

// othersWait reports whether another thread than t waits for the GVL.
func (m *Movements) othersWait(t *mover) bool {
	n := m.waiters
	if t.is == waiting && t.words.Thread != 0 {
		n--
	}
	return n > 0
}

// set records whether a thread has a CPU, or wants one.
func (m *Movements) set(t *mover, on, preempted bool) {
	m.count(t, -1)
	t.on, t.preempted = on, preempted
	m.count(t, +1)
}

// count adds a thread to the numbers active and waiters (n is 1), or subtracts it (n is -1).
func (m *Movements) count(t *mover, n int) {
	if t.words.Thread == 0 {
		return
	}
	if t.on || t.preempted {
		m.active += n
	}
	if t.is == waiting {
		m.waiters += n
	}
}

// conclude finds out from moves alone what a thread did during a sleep. It is called if the sleep ended before a glance
// could show this.
func (m *Movements) conclude(t *mover) {
	if t.words.Thread == 0 {
		return
	}
	m.Concluded++
	is := released
	switch {
	case t.went: // the thread gave the GVL away because it wanted to sleep
	case t.is == released && t.ranNS < briefNS, t.is == waiting && t.ranNS < ranNS:
		if t.busy || t.queue {
			is = waiting // the thread woke up, wanted the GVL and did not get it
		}
	case t.ranNS >= briefNS && t.outNS-t.inNS >= sliceNS:
		if t.queue {
			is = waiting // the thread's time slice was over, so the thread had to give the GVL away
		}
	}
	t.told = true
	if is == t.is && t.ranNS < ranNS && !t.went {
		return // the thread is in the same state as before the sleep
	}
	m.record(t, Out, t.outNS, is, 0)
}

func (m *Movements) glance(g *Glance) {
	at := g.FromNS + (g.ToNS-g.FromNS)/2
	for i := range g.Threads {
		w := &g.Threads[i]
		t := m.thread(w.TID)
		if t == nil || t.moved == m.round {
			continue
		}
		m.count(t, -1)
		if t.words.Thread != w.Thread {
			*t = mover{tid: t.tid, on: t.on, preempted: t.preempted, inNS: t.inNS, gotNS: t.gotNS, ranNS: t.ranNS, outNS: t.outNS, moves: t.moves}
		}
		t.words = *w
		m.count(t, +1)
		owner := g.Owner
		if !g.Sure && (t.on || t.preempted) {
			continue // the owner changed during the glance, so it is not known whether this thread owned the GVL
		}
		r := Record{Thread: w.Thread, Owner: owner, Queued: w.Queued, Linked: w.Linked, Region: w.Region, Runnable: w.Runnable, Before33: g.Before33}
		if !g.Sure && r.Owner == w.Thread {
			r.Owner = 0
		}
		is := r.state()
		switch {
		case t.moves == 0 && t.outNS == 0 && t.lookedNS == 0: // ddtop has just begun to follow this thread
			t.told, t.outNS = !t.on, at
			m.record(t, Began, at, is, owner)
		case t.on, t.preempted:
			// The thread has a CPU, or is runnable without one. So its state may have changed since the last glance.
			// Even if it holds the GVL as before, another thread may have had the GVL in between.
			if !t.preempted || !t.told || is != t.is || is == running {
				t.gave = t.preempted && is == released && (t.gave || t.is == running)
				t.told = t.preempted
				m.record(t, Clock, at, is, owner)
			}
		case !t.told:
			t.told = true
			m.Seen++
			m.record(t, Out, t.outNS, is, owner)
		case is != t.is:
			// The thread has not moved, but its state is not the same as before. So another thread has put it into the
			// queue, or has given it the GVL.
			if t.lookedNS > t.outNS {
				m.record(t, Clock, t.lookedNS, t.is, 0)
			}
			m.record(t, Clock, at, is, owner)
		}
		if t.lookedNS, t.firstNS = at, 0; t.on {
			t.firstNS = at
		}
	}
}

// record makes a Record of a thread that has a state (is) at a time (at), and passes it on.
func (m *Movements) record(t *mover, kind Kind, at int64, is state, owner uint64) {
	in := t.inNS
	if t.is != running {
		in = max(in, t.firstNS) // before firstNS the thread had no CPU, so it cannot have got the GVL
	}
	t.firstNS = 0
	m.count(t, -1)
	t.is = is
	m.count(t, +1)
	r := Record{
		Kind: kind, NS: at, InNS: in, TID: t.words.TID, Thread: t.words.Thread, Owner: owner, Region: true,
		Before33: m.before33,
		Asleep:   kind == Out, Syscall: -1, DelayNS: t.words.DelayNS, CFP: t.steps, OfMove: true,
	}
	switch is {
	case running:
		r.Owner, r.Linked = r.Thread, true
	case waiting:
		r.Queued = true
	}
	if is != running && r.Owner == r.Thread && m.before33 {
		r.Owner = 0
	}
	m.out(&r)
	switch h := m.holder; {
	case is == running:
		m.holder = t
	case kind == Out && h != nil && h != t && h.is == running && (h.on || h.preempted) && h.inNS <= t.inNS:
		// The previous holder h did not sleep, but gave the GVL to this thread for a while. Now h has the GVL again, so
		// h also gets a record.
		m.record(h, Clock, at, running, 0)
	}
}
