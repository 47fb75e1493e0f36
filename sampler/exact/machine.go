package exact

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// maxThreads bounds the threads that are followed at once; records of more are counted (Checks.Untracked).
const maxThreads = 20000

// Machine makes changes of records. It follows one scheduler whose threads have native threads of their own (no M:N
// threads). One goroutine uses it.
type Machine struct {
	changed func(*Change)
	threads map[int32]*thread
	// of says which native thread an rb_thread_t was seen on last.
	of map[uint64]int32
	// holder is the thread that got the GVL last. It may have given it away since. It is nil if no thread got it, or if
	// the thread has ended.
	holder *thread
	checks Checks
	lastNS int64
	// passedNS is the time up to which all changes have been reported.
	passedNS int64
	past     past
	looked   look // the last comparison that counted
	// endedNS is when the last thread ended. It is zero if none has.
	endedNS int64
	doubt   int64 // until then changes may be missing, CLOCK_MONOTONIC in ns
	spare   []*thread
	lives   uint64 // how many threads there were
	change  Change
}

// Checks say how well the records fit together and to what sampling sees.
type Checks struct {
	// Records counts all records, Untracked the records of threads beyond the limit.
	Records, Untracked uint64
	// Runs is how often a thread got the GVL. Unclosed is how often it got the GVL while another one was not known to
	// have given it away, because a record was missing.
	Runs, Unclosed uint64
	// Agreed and Disagreed count the turns in which sampling saw a thread hold the GVL that did by the records too, and
	// that did not.
	Agreed, Disagreed uint64
}

// thread is one native thread of Ruby's.
type thread struct {
	life    uint64
	tid     int32
	address uint64
	// state is GVLGone before the first state is known. since is when the state began.
	state sampler.GVLState
	since int64
	// delay is DelayNS of the thread's last record, began is its value when the state began. proven is true if there
	// was a record of the thread. own is true if such a record names the thread itself.
	delay, began int64
	proven, own  bool
	doubtful     bool
}

func waits(g sampler.GVLState) bool { return g == sampler.GVLQueued || g == sampler.GVLChosen }

// NewMachine returns a Machine that knows of no thread yet. It calls changed with each change, in order of time. The
// change is valid during the call only.
func NewMachine(changed func(*Change)) *Machine {
	return &Machine{changed: changed, threads: make(map[int32]*thread), of: make(map[uint64]int32)}
}

// Change is a change of a thread's state toward the GVL.
type Change struct {
	// AtNS is CLOCK_MONOTONIC in ns.
	AtNS int64
	// Life numbers the threads. It is unique, while native ids and addresses are used again. Address is the address of
	// the rb_thread_t.
	Life, Address uint64
	TID           int32
	State         sampler.GVLState
	// NoCPUNS and Doubtful are as in sampler.Change.
	NoCPUNS  int64
	Doubtful bool
	// Stack, Resumes and Doing are as in sampler.Change.
	Stack, Resumes sampler.StackID
	Doing          sampler.Doing
}

// Passed sets the time up to which all changes have been reported, CLOCK_MONOTONIC in ns. A later record of an
// earlier time counts as just after it.
func (m *Machine) Passed(ns int64) { m.passedNS = max(m.passedNS, ns) }

// tell reports a change of a thread. r is the record of a thread that gets the GVL. It is nil for other changes.
func (m *Machine) tell(t *thread, state sampler.GVLState, now, noCPU int64, doubtful bool, r *Record) {
	m.change = Change{AtNS: now, Life: t.life, Address: t.address, TID: t.tid, State: state, NoCPUNS: noCPU, Doubtful: doubtful}
	if r != nil {
		m.change.Stack, m.change.Resumes = r.Stack, r.Resumes
	}
	m.changed(&m.change)
}

// Checks returns the results of all checks so far.
func (m *Machine) Checks() Checks { return m.checks }

// Feed adds a record. Records come in order of time. A record that does not counts as one of the time of the last
// record.
func (m *Machine) Feed(r *Record) {
	now := max(r.NS, m.lastNS, m.passedNS+1)
	m.lastNS = now
	if r.Kind == Exited {
		if t := m.threads[r.TID]; t != nil {
			m.end(t, now)
		}
		return
	}
	if r.Kind != Began {
		m.checks.Records++
	}
	if r.Kind == Signalled {
		// No lock is held: the record proves only that a thread which ran has stopped running.
		if t := m.threads[r.TID]; t != nil && t.state == sampler.GVLHeld && t.address == r.Thread && r.state() != sampler.GVLHeld {
			m.note(t, r)
			m.move(t, r.state(), now, r)
		}
		return
	}
	own := r.Kind != Began && r.Thread != 0
	if r.Thread == 0 && r.Before33 {
		named := *r
		named.Thread = m.firstOf(r)
		r = &named
	}
	if r.Thread != 0 {
		t := m.find(r, now)
		if t == nil {
			return
		}
		t.own = t.own || own
		if r.Kind != Began || !t.proven {
			m.note(t, r)
			m.move(t, r.state(), now, r)
		}
	} else if t := m.threads[r.TID]; t != nil {
		m.end(t, now) // up to 2.7 a thread is none of Ruby's when it gives the GVL away for the last time
	}
	if r.Kind != Began {
		m.others(r, now)
	}
}

// firstOf returns the rb_thread_t of a record that names none. Up to Ruby 3.2 a native thread has the GVL before its
// thread-local storage names its rb_thread_t. The rb_thread_t is the one listed for that native thread, or the owner
// if no other native thread has it. firstOf returns zero if there is none.
func (m *Machine) firstOf(r *Record) uint64 {
	if t := m.threads[r.TID]; t != nil {
		if t.own {
			return 0
		}
		return t.address
	}
	if _, known := m.of[r.Owner]; known {
		return 0
	}
	return r.Owner
}

// note stores a record's facts about its thread, except the state.
func (m *Machine) note(t *thread, r *Record) {
	if r.Kind != Began {
		t.proven = true
		t.delay = max(t.delay, r.DelayNS)
	}
}

// find returns the thread of a record. It is new if its native thread or its rb_thread_t is. It is nil if there are too
// many.
func (m *Machine) find(r *Record, now int64) *thread {
	t := m.threads[r.TID]
	if t != nil && t.address == r.Thread {
		return t
	}
	if t != nil {
		if r.Kind == Began {
			return t // t has begun before: its own records are more exact
		}
		m.end(t, now) // the native thread serves another thread now
	}
	if tid, ok := m.of[r.Thread]; ok {
		if r.Kind == Began {
			return nil
		}
		if old := m.threads[tid]; old != nil {
			m.end(old, now) // the thread ended unseen, and the next thread got its memory
		}
	}
	if len(m.threads) >= maxThreads {
		m.checks.Untracked++
		return nil
	}
	if n := len(m.spare); n > 0 {
		t, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		t = new(thread)
	}
	m.lives++
	*t = thread{life: m.lives, tid: r.TID, address: r.Thread, since: now, delay: r.DelayNS, began: r.DelayNS, doubtful: now < m.doubt}
	m.threads[r.TID], m.of[r.Thread] = t, r.TID
	return t
}

// others applies a record to other threads than its own: the thread put into the queue, and the chosen one.
func (m *Machine) others(r *Record, now int64) {
	if r.Before33 {
		return // each one queues, and takes the GVL, by itself
	}
	for _, address := range [2]uint64{r.Last, r.Owner} {
		if address == 0 || address == r.Thread {
			continue
		}
		t := m.threads[m.of[address]]
		if t == nil || t.address != address {
			continue
		}
		to := sampler.GVLQueued
		if address == r.Owner {
			to = sampler.GVLChosen
		}
		if t.state == sampler.GVLReleased || t.state == sampler.GVLQueued {
			m.move(t, to, now, r)
		}
	}
}

func (m *Machine) move(t *thread, to sampler.GVLState, now int64, r *Record) {
	switch {
	case t.state == to && to == sampler.GVLHeld && r.Stack != 0:
		m.tell(t, to, now, 0, t.doubtful, r) // the code that it runs now
		return
	case t.state == sampler.GVLQueued && to == sampler.GVLChosen:
		// For how long the thread had no CPU in the wait is not known before its next record.
		t.state = to
		m.tell(t, to, now, 0, t.doubtful, nil)
		return
	case t.state == to, waits(t.state) && waits(to):
		return
	}
	noCPU, doubtful := m.leave(t, now)
	t.state = to
	if to != sampler.GVLHeld {
		m.tell(t, to, now, noCPU, doubtful, nil)
		return
	}
	m.checks.Runs++
	if h := m.holder; h != nil && h != t && h.state == sampler.GVLHeld {
		// Two can't hold it: what ended the other one's turn was not recorded.
		m.checks.Unclosed++
		h.doubtful = true
		m.move(h, sampler.GVLReleased, now, r)
	}
	m.holder = t
	m.tell(t, to, now, noCPU, doubtful, r)
}

// leave ends the state that a thread is in. It returns for how long the thread had no CPU in it, and whether it is
// doubtful.
func (m *Machine) leave(t *thread, now int64) (noCPU int64, doubtful bool) {
	noCPU, doubtful = min(max(t.delay-t.began, 0), now-t.since), t.doubtful
	if t.state == sampler.GVLHeld {
		m.past.add(turn{t.tid, t.since, now})
	}
	t.since, t.began, t.doubtful = now, t.delay, now < m.doubt
	return noCPU, doubtful
}

func (m *Machine) end(t *thread, now int64) {
	noCPU, doubtful := m.leave(t, now)
	if t.state != sampler.GVLGone {
		m.tell(t, sampler.GVLGone, now, noCPU, doubtful, nil)
	}
	m.endedNS = now
	delete(m.threads, t.tid)
	if m.of[t.address] == t.tid {
		delete(m.of, t.address)
	}
	if m.holder == t {
		m.holder = nil
	}
	m.spare = append(m.spare, t)
}

// Lost reports that records are missing until a time. All intervals that reach back before it are doubtful.
func (m *Machine) Lost(untilNS int64) {
	m.doubt = max(m.doubt, untilNS)
	for _, t := range m.threads {
		t.doubtful = true
	}
}

// Gone ends, at a time, the doubtful threads that have ended by alive, because the records of their ends were lost.
// All records up to that time must have been fed.
func (m *Machine) Gone(atNS int64, alive func(tid int32) bool) {
	now := max(m.lastNS, atNS)
	for _, tid := range slices.Sorted(maps.Keys(m.threads)) {
		if t := m.threads[tid]; t.doubtful && !alive(tid) {
			m.lastNS = now
			m.end(t, now)
		}
	}
}
