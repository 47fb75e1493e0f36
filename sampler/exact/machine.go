package exact

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// maxThreads limits how many threads are followed at the same time. Records of further threads are counted
// (Checks.Untracked) and otherwise ignored.
const maxThreads = 20000

// Machine turns the records of the probes into changes of the GVL. It follows one scheduler, in which each Ruby thread
// has its own native thread (no M:N threads). Only one goroutine may use it.
type Machine struct {
	changed func(*Change)
	threads map[int32]*thread
	// tidOf maps each rb_thread_t to the native thread on which it was last seen.
	tidOf map[uint64]int32
	// holder is the last thread that got the GVL, even if it has released the GVL since. It is nil if no thread has got
	// the GVL, or if this thread has ended.
	holder *thread
	checks Checks
	lastNS int64
	// passedNS is the time up to which samples have got all changes (Passed).
	passedNS int64
	past     past
	compared comparison // the last comparison that was counted
	// endedNS is when the last thread ended. It is zero if no thread has ended.
	endedNS int64
	// owner is the owner of the GVL in the last record of Ruby before 3.3. It is unset (ownerKnown is false) at first,
	// and after records were lost.
	owner      uint64
	ownerKnown bool
	doubt      int64 // changes before this time may be missing, CLOCK_MONOTONIC in ns
	spare      []*thread
	lives      uint64 // the number of threads so far
	change     Change
}

// Checks counts records, and how well they agree with each other and with samples.
type Checks struct {
	// Records counts all records. Untracked counts the records of threads beyond maxThreads.
	Records, Untracked uint64
	// Runs counts how many times a thread got the GVL. Unclosed counts how many of these times there was no record that
	// the previous holder had released the GVL. So Unclosed shows that records are missing.
	Runs, Unclosed uint64
	// Agreed and Disagreed count the holds that samples have seen. Agreed counts the holds that the records also show.
	// Disagreed counts the other holds.
	Agreed, Disagreed uint64
}

// thread is the native thread of a Ruby thread.
type thread struct {
	life    uint64
	tid     int32
	address uint64
	// state is GVLGone until the first state is known. since is when the state began, in ns.
	state sampler.GVLState
	since int64
	// delay is how long the thread was runnable without a CPU in total, up to its last record (Record.DelayNS). began
	// is the value of delay when the state began. Their difference is the time without a CPU in this state.
	//
	// proven is true if the thread itself made a record. own is true if such a record had the rb_thread_t. Up to Ruby
	// 3.2, a record may lack it (firstOf).
	delay, began int64
	proven, own  bool
	doubtful     bool
}

func waits(g sampler.GVLState) bool { return g == sampler.GVLQueued || g == sampler.GVLChosen }

// NewMachine returns a Machine that knows no thread yet. The Machine calls the function changed with each change, in
// order of time. The Change is valid only during the call.
func NewMachine(changed func(*Change)) *Machine {
	return &Machine{changed: changed, threads: make(map[int32]*thread), tidOf: make(map[uint64]int32)}
}

// Change is a change of a thread's GVLState or of its Doing.
type Change struct {
	// AtNS is the time of the change, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Life is a unique number of the thread. It is needed because the kernel reuses IDs of native threads, and Ruby
	// reuses addresses. Address is the address of the rb_thread_t.
	Life, Address uint64
	TID           int32
	State         sampler.GVLState
	// NoCPUNS and Doubtful have the same meaning as in sampler.Change.
	NoCPUNS  int64
	Doubtful bool
	// Stack, Resumes and Doing have the same meaning as in sampler.Change.
	Stack, Resumes sampler.StackID
	Doing          sampler.Doing
}

// Passed tells the Machine that samples have all changes up to the time ns, CLOCK_MONOTONIC in ns. If a later record
// has an earlier time, the Machine uses the time just after ns instead.
func (m *Machine) Passed(ns int64) { m.passedNS = max(m.passedNS, ns) }

// report calls the function changed with a change of a thread's state. If the thread gets the GVL, r is the record that
// shows this. For other changes r is nil.
func (m *Machine) report(t *thread, state sampler.GVLState, now, noCPU int64, doubtful bool, r *Record) {
	m.change = Change{AtNS: now, Life: t.life, Address: t.address, TID: t.tid, State: state, NoCPUNS: noCPU, Doubtful: doubtful}
	if r != nil {
		m.change.Stack, m.change.Resumes = r.Stack, r.Resumes
	}
	m.changed(&m.change)
}

// Checks returns the results of all checks so far.
func (m *Machine) Checks() Checks { return m.checks }

// Feed adds a record. Records should come in order of time. If a record has an earlier time than the last one, Feed
// uses the time of the last one.
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
		// When this kind of record is made, the thread may not hold the scheduler's mutex. So the record may be
		// inconsistent. It proves only one thing: a thread that had the GVL has released it.
		if t := m.threads[r.TID]; t != nil && t.state == sampler.GVLHeld && t.address == r.Thread && r.state() != sampler.GVLHeld {
			m.note(t, r)
			m.move(t, r.state(), now, r)
		}
		return
	}
	own := r.Kind != Began && r.Thread != 0
	if r.Before33 {
		switch taken := m.takes(r); {
		case taken && r.Thread != r.Owner:
			named := *r
			named.Thread, own = r.Owner, false
			r = &named
		case r.Thread == 0:
			named := *r
			named.Thread = m.firstOf(r)
			r = &named
		}
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
		m.end(t, now) // up to Ruby 2.7, the rb_thread_t is missing when a thread releases the GVL for the last time
	}
	if r.Kind != Began {
		m.others(r, now)
	}
}

// takes reports whether the thread that made a record of a probe has just taken the GVL. This is true if the GVL has
// another owner than in the last record. Ruby changes the owner only while it holds the scheduler's mutex, and each
// unlock of this mutex makes a record. So the thread that makes the record has changed the owner to itself.
//
// From 3.0 to 3.2, this is needed for a native thread that serves a second Ruby thread. Its thread-local storage still
// has the first rb_thread_t when it takes the GVL for the second one (thread_start_func_2 in thread.c, 3.1).
func (m *Machine) takes(r *Record) bool {
	if r.Some || r.Kind != Unlocked && r.Kind != Slept {
		return false
	}
	took := m.ownerKnown && r.Kind == Unlocked && r.Owner != 0 && r.Owner != m.owner
	m.owner, m.ownerKnown = r.Owner, true
	return took
}

// firstOf returns the rb_thread_t for a record that lacks it. Up to Ruby 3.2 a native thread gets the GVL before its
// thread-local storage has its rb_thread_t. If the Machine knows the native thread, firstOf returns the thread's known
// rb_thread_t. But if earlier records of the native thread had an rb_thread_t, the thread has ended, and firstOf
// returns zero. If the Machine does not know the native thread, firstOf returns the owner of the GVL, or zero if the
// owner has another native thread.
func (m *Machine) firstOf(r *Record) uint64 {
	if t := m.threads[r.TID]; t != nil {
		if t.own {
			return 0
		}
		return t.address
	}
	if _, known := m.tidOf[r.Owner]; known {
		return 0
	}
	return r.Owner
}

// note stores what a record says about its thread, except the thread's state.
func (m *Machine) note(t *thread, r *Record) {
	if r.Kind != Began {
		t.proven = true
		t.delay = max(t.delay, r.DelayNS)
	}
}

// find returns the thread to which a record belongs. It makes a new one if the native thread or the rb_thread_t is new.
// It returns nil if there are too many threads.
func (m *Machine) find(r *Record, now int64) *thread {
	t := m.threads[r.TID]
	if t != nil && t.address == r.Thread {
		return t
	}
	if t != nil {
		if r.Kind == Began {
			return t // ignore a Began record of a known thread, because the thread's own records are more exact
		}
		m.end(t, now) // the native thread now runs another Ruby thread
	}
	if tid, ok := m.tidOf[r.Thread]; ok {
		if r.Kind == Began {
			return nil
		}
		if old := m.threads[tid]; old != nil {
			m.end(old, now) // the record of the thread's end is missing, and a new thread got its memory
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
	m.threads[r.TID], m.tidOf[r.Thread] = t, r.TID
	return t
}

// others changes the states of the two other threads that a record mentions. The first one was put into the queue. The
// second one was chosen as the next holder.
func (m *Machine) others(r *Record, now int64) {
	if r.Before33 {
		return // up to Ruby 3.2, each thread itself enters the queue and takes the GVL
	}
	for _, address := range [2]uint64{r.Last, r.Owner} {
		if address == 0 || address == r.Thread {
			continue
		}
		t := m.threads[m.tidOf[address]]
		if t == nil || t.address != address {
			continue
		}
		to := sampler.GVLQueued
		if address == r.Owner {
			to = sampler.GVLChosen
		}
		if t.state == sampler.GVLQueued || t.state == sampler.GVLReleased && !(r.Some && to == sampler.GVLChosen) {
			m.move(t, to, now, r)
		}
	}
}

func (m *Machine) move(t *thread, to sampler.GVLState, now int64, r *Record) {
	switch {
	case t.state == to && to == sampler.GVLHeld && r.Stack != 0:
		m.report(t, to, now, 0, t.doubtful, r) // r has the code that the thread runs now
		return
	case t.state == sampler.GVLQueued && to == sampler.GVLChosen:
		// The time without a CPU in this wait is known only from the thread's own next record. So report 0 for now.
		t.state = to
		m.report(t, to, now, 0, t.doubtful, nil)
		return
	case t.state == to, waits(t.state) && waits(to):
		return
	}
	noCPU, doubtful := m.leave(t, now)
	t.state = to
	if to != sampler.GVLHeld {
		m.report(t, to, now, noCPU, doubtful, nil)
		return
	}
	m.checks.Runs++
	if h := m.holder; h != nil && h != t && h.state == sampler.GVLHeld {
		// Two threads cannot hold the GVL at the same time. So the earlier holder h has released it, but the record of
		// the release is missing.
		m.checks.Unclosed++
		h.doubtful = true
		m.move(h, sampler.GVLReleased, now, r)
	}
	m.holder = t
	m.report(t, to, now, noCPU, doubtful, r)
}

// leave ends the present state of a thread. It returns how long the thread had no CPU in this state, in ns, and whether
// the state is doubtful.
func (m *Machine) leave(t *thread, now int64) (noCPU int64, doubtful bool) {
	noCPU, doubtful = min(max(t.delay-t.began, 0), now-t.since), t.doubtful
	if t.state == sampler.GVLHeld {
		m.past.add(hold{t.tid, t.since, now})
	}
	t.since, t.began, t.doubtful = now, t.delay, now < m.doubt
	return noCPU, doubtful
}

func (m *Machine) end(t *thread, now int64) {
	noCPU, doubtful := m.leave(t, now)
	if t.state != sampler.GVLGone {
		m.report(t, sampler.GVLGone, now, noCPU, doubtful, nil)
	}
	m.endedNS = now
	delete(m.threads, t.tid)
	if m.tidOf[t.address] == t.tid {
		delete(m.tidOf, t.address)
	}
	if m.holder == t {
		m.holder = nil
	}
	m.spare = append(m.spare, t)
}

// Lost tells the Machine that records before untilNS are missing. All states that began before that time become
// doubtful.
func (m *Machine) Lost(untilNS int64) {
	m.doubt = max(m.doubt, untilNS)
	m.ownerKnown = false
	for _, t := range m.threads {
		t.doubtful = true
	}
}

// Gone ends the threads whose state is doubtful, if the function alive returns false for them. The records of their
// ends were lost. The ends get the time atNS. The caller must have fed all records up to atNS.
func (m *Machine) Gone(atNS int64, alive func(tid int32) bool) {
	now := max(m.lastNS, atNS)
	for _, tid := range slices.Sorted(maps.Keys(m.threads)) {
		if t := m.threads[tid]; t.doubtful && !alive(tid) {
			m.lastNS = now
			m.end(t, now)
		}
	}
}
