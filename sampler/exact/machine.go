package exact

import (
	"maps"
	"slices"
)

// maxThreads bounds the threads that are followed at once; records of more are counted (Checks.Untracked).
const maxThreads = 20000

// Machine makes states of records. It follows one scheduler whose threads have native threads of their own (no M:N threads). It is
// for one goroutine.
type Machine struct {
	to      Consumer
	threads map[int32]*thread
	// of says which native thread an rb_thread_t was seen on last.
	of map[uint64]int32
	// holder is the thread that is Running, last the one that was before it; nil: none, or it has ended.
	holder *thread
	last   int32
	checks Checks
	lastNS int64
	past   past
	looked look // the last comparison that counted
	// endedNS is when a thread ended last; 0: none has.
	endedNS int64
	doubt   int64 // until then changes may be missing, CLOCK_MONOTONIC in ns
	spare   []*thread
	out     Interval
	wait    Wait
}

// Checks say how well the records fit together and to what sampling sees.
type Checks struct {
	// Records counts all records, Untracked those of threads beyond the limit.
	Records, Untracked uint64
	// Runs is how often a thread got the GVL, Unclosed how often it did while another one was not known to have given it away: a
	// record was missing.
	Runs, Unclosed uint64
	// Agreed and Disagreed count the turns in which sampling saw a thread hold the GVL that did by the records too, and that did not.
	Agreed, Disagreed uint64
}

// thread is one native thread of Ruby's.
type thread struct {
	tid     int32
	address uint64
	state   State
	since   int64
	// delay is DelayNS of its last record; began is it at the state's begin. proven: there was a record of its own.
	delay, began int64
	proven       bool
	doubtful     bool
	// of a wait
	chosenNS int64 // 0: not yet
	first    int32
}

// NewMachine returns a Machine that knows of no thread yet.
func NewMachine(to Consumer) *Machine {
	return &Machine{to: to, threads: make(map[int32]*thread), of: make(map[uint64]int32)}
}

// Checks returns what was checked so far.
func (m *Machine) Checks() Checks { return m.checks }

// Feed takes a record. They come in order of time; one that does not is taken to be of the time of the last one.
func (m *Machine) Feed(r *Record) {
	now := max(r.NS, m.lastNS)
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
		// No lock is held: it says for sure only that a thread which ran does not any more.
		if t := m.threads[r.TID]; t != nil && t.state == Running && t.address == r.Thread && r.state() != Running {
			m.note(t, r)
			m.move(t, r.state(), now, r)
		}
		return
	}
	if r.Thread != 0 {
		t := m.find(r, now)
		if t == nil {
			return
		}
		if r.Kind != Began || !t.proven {
			m.note(t, r)
			m.move(t, r.state(), now, r)
		}
	}
	if r.Kind != Began {
		m.others(r, now)
	}
}

// note keeps what a record says of its thread beside the state.
func (m *Machine) note(t *thread, r *Record) {
	if r.Kind != Began {
		t.proven = true
		t.delay = max(t.delay, r.DelayNS)
	}
}

// find returns the thread of a record, which is new when its native thread or its rb_thread_t is; nil: there are too many.
func (m *Machine) find(r *Record, now int64) *thread {
	t := m.threads[r.TID]
	if t != nil && t.address == r.Thread {
		return t
	}
	if t != nil {
		if r.Kind == Began {
			return t // its records know better
		}
		m.end(t, now) // the native thread serves another thread now
	}
	if tid, ok := m.of[r.Thread]; ok {
		if r.Kind == Began {
			return nil
		}
		if old := m.threads[tid]; old != nil {
			m.end(old, now) // it ended unseen, and its memory was given to the next one
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
	*t = thread{tid: r.TID, address: r.Thread, since: now, delay: r.DelayNS, began: r.DelayNS, doubtful: now < m.doubt}
	m.threads[r.TID], m.of[r.Thread] = t, r.TID
	return t
}

// others learns from a record about other threads than its own: who has been put into the queue, and who was chosen.
func (m *Machine) others(r *Record, now int64) {
	for _, address := range [2]uint64{r.Last, r.Owner} {
		if address == 0 || address == r.Thread {
			continue
		}
		t := m.threads[m.of[address]]
		if t == nil || t.address != address {
			continue
		}
		if t.state == Released {
			m.move(t, Waiting, now, r)
		}
		if address == r.Owner && t.state == Waiting && t.chosenNS == 0 {
			t.chosenNS = now
		}
	}
}

// move brings a thread into a state.
func (m *Machine) move(t *thread, to State, now int64, r *Record) {
	if t.state == to {
		if to == Waiting && r.Owner == t.address && t.chosenNS == 0 {
			t.chosenNS = now
		}
		return
	}
	m.close(t, now, false)
	t.state, t.chosenNS, t.first = to, 0, 0
	switch to {
	case Running:
		m.checks.Runs++
		if h := m.holder; h != nil && h != t && h.state == Running {
			// Two can't hold it: what ended the other one's turn was not recorded.
			m.checks.Unclosed++
			h.doubtful = true
			m.move(h, Released, now, r)
		}
		m.holder = t
	case Waiting:
		if h := m.holder; h != nil && h.state == Running {
			t.first = h.tid
		} else if r.Owner != t.address {
			if tid, ok := m.of[r.Owner]; ok {
				t.first = tid
			}
		}
		if r.Owner == t.address {
			t.chosenNS = now
		}
	}
}

// close hands out the state that a thread leaves, and begins anew.
func (m *Machine) close(t *thread, now int64, open bool) {
	if t.state != None {
		m.out = Interval{
			TID: t.tid, State: t.state, FromNS: t.since, ToNS: now, NoCPUNS: min(max(t.delay-t.began, 0), now-t.since), Doubtful: t.doubtful,
		}
		m.to.Interval(&m.out)
		if t.state == Waiting {
			m.wait = Wait{Interval: m.out, FirstHolder: t.first, InProgress: open}
			if m.last != t.tid {
				m.wait.LastHolder = m.last
			}
			if h := m.holder; h != nil && h != t && h.state == Running {
				m.wait.LastHolder = h.tid
			}
			if t.chosenNS != 0 {
				m.wait.HandoverNS = now - max(t.chosenNS, t.since)
			}
			m.to.Waited(&m.wait)
		}
		if t.state == Running {
			m.last = t.tid
			m.past.add(turn{t.tid, t.since, now})
		}
	}
	t.since, t.began, t.doubtful = now, t.delay, now < m.doubt
}

// end forgets a thread.
func (m *Machine) end(t *thread, now int64) {
	m.close(t, now, false)
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

// Lost says that records are missing until a time: all intervals that reach into what came before are doubtful.
func (m *Machine) Lost(untilNS int64) {
	m.doubt = max(m.doubt, untilNS)
	for _, t := range m.threads {
		t.doubtful = true
	}
}

// Finish hands out what goes on, as if it ended at a time, CLOCK_MONOTONIC in ns, and forgets all threads.
func (m *Machine) Finish(atNS int64) {
	atNS = max(atNS, m.lastNS)
	for _, tid := range slices.Sorted(maps.Keys(m.threads)) {
		m.close(m.threads[tid], atNS, true)
	}
	clear(m.threads)
	clear(m.of)
	m.holder = nil
}
