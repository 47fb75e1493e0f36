package switches

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// These constants are for the rules that turn records into states. The times, in ns, were measured on an x86_64 server
// of 2024. All of them are short, so an error in them hardly changes a thread's shares of time.
const (
	// backNS is the time, in ns, from when a thread gets a CPU until it runs Ruby. The thread needs this time to return
	// from the kernel and to lock the scheduler's mutex.
	backNS = 4_000
	// leadNS is the time, in ns, from when a thread gives the GVL away, or queues for it, until it loses its CPU.
	leadNS = 3_000
	// sendNS is for a thread that loses its CPU in a system call that sends something. It is how long before this loss
	// the thread gave the GVL away, in ns. A server on the same machine gets the message and takes the CPU. The time is
	// long because libraries of databases first prepare and encrypt the message.
	//
	// writeNS is the same time for a thread that writes or wakes another thread. It is short because Ruby itself makes
	// these calls.
	sendNS, writeNS = 40_000, 4_000
	// againNS is how long a system call can take if it does not wait, in ns. The thread gives the GVL away for this
	// call, and gets it back on the same CPU without sleeping.
	againNS = 50_000
	// largeBytes is a size in bytes. A read or write of at least this size can take much longer than others. So a
	// thread can lose its CPU in the middle of such a call.
	largeBytes = 1 << 16
	// exitNS is the time, in ns, from when a thread gives the GVL away for the last time until its native thread ends.
	exitNS = 25_000
	// unitNS is the unit of the times in sampler.Change, in ns.
	unitNS = 100
	// maxThreads limits how many threads are followed at once.
	maxThreads = 20_000
	// endedNS is how long ddtop ignores records of a native thread after the thread's end, in ns. This is necessary
	// because the record of the thread's last switch comes after the record of its end. The kernel does not give the
	// thread's number to another thread so soon.
	endedNS = 20_000_000
	// maxEnded limits how many ended threads are remembered.
	maxEnded = 4096
	// maxHeld limits how many changes wait until the name of their stack or request is known.
	maxHeld = 1 << 13
	// maxTurns is how many holds of the GVL are remembered. ddtop uses them when it gets the first record of a thread:
	// the thread cannot have held the GVL while another thread held it.
	maxTurns = 16
)

// Machine finds out the states of threads from records of switches. It passes the states to an exact.Machine, in the
// same form as if ddtop had seen each change of the GVL. It follows one scheduler. Each thread of this scheduler must
// have a native thread of its own (no M:N threads). Only one goroutine may use it.
type Machine struct {
	to      *exact.Machine
	threads map[int32]*thread
	// The field of maps each rb_thread_t to the native thread on which it was last seen. The keys are addresses.
	of map[uint64]int32
	// waiters is the number of threads in the state waiting.
	waiters int
	// ended has the times at which native threads ended.
	ended map[int32]int64
	// joins are the threads whose joinedNS is set: another thread has put them into the queue for the GVL.
	joins []*thread
	// holder is the thread that holds the GVL, according to the last records. It is nil if no thread does, or if this
	// is not known. turns are the last holds of the GVL by any thread. The next one is stored at index turn.
	holder *thread
	turns  [maxTurns]span
	turn   int
	// sights has which thread the last records show as the owner of the GVL. Only records of other threads than the
	// owner are used. The next entry is stored at index sight. found is the result of clues.
	sights [maxTurns]sight
	sight  int
	found  []clue
	// ticks has the times of the last clock ticks of threads with the GVL. The next one is stored at index tick.
	ticks [maxTicks]int64
	tick  int
	// pending are the changes that ddtop has not passed on yet, because it may still find changes with earlier times.
	pending []change
	// failed counts the records for which some words of memory could not be read.
	failed uint64
}

type change struct {
	exact.Record
	stack Named
	// does is true if the change is not one of the thread's state, but only of what the thread does in this state. The
	// field doing then says what the thread does from now on.
	does  bool
	doing sampler.Doing
	// work is the request that the thread begins with this change. It is nil if the thread begins no request.
	work Worked
}

type thread struct {
	tid     int32
	address uint64
	state   state
	// atNS is the time of the thread's last record. sinceNS is when its state began.
	atNS, sinceNS int64
	// blocked is the value of Record.inCall for the thread's last record. It is true if the thread lost its CPU in a
	// system call that it had just entered. It is also true before the first record.
	blocked bool
	// stack is the stack that the thread had when it began to wait for the GVL. It is nil if this stack was not copied.
	stack Named
	// joinedNS is when another thread put this thread into the queue for the GVL. It is zero if no thread is known to
	// have done so.
	joinedNS    int64
	cfp, pc, sp uint64
	// call and args are the name and the arguments of the system call of the thread's last record.
	call string
	args [3]uint64
	// delayNS is Record.DelayNS of the thread's last record. The field out is true if the thread lost its CPU at that
	// time.
	delayNS int64
	out     bool
	// doing is the last report of what the thread does in its state.
	doing sampler.Doing
	// ticks counts clock ticks of the thread. Of several ticks after the same system call, only the first is counted.
	// free counts only the ticks among them at which the thread did not have the GVL. Old ticks have less weight
	// (countTick).
	ticks, free int
	// queues is what ddtop knows about this thread's waits in the queue for the GVL, after other threads have put it
	// there.
	queues queueing
}

type span struct {
	tid          int32
	fromNS, toNS int64
}

// NewMachine returns a Machine that knows no threads yet.
func NewMachine(to *exact.Machine) *Machine {
	return &Machine{to: to, threads: make(map[int32]*thread), of: make(map[uint64]int32), ended: make(map[int32]int64)}
}

// Failed returns the number of records for which some words of memory could not be read.
func (m *Machine) Failed() uint64 { return m.failed }

// Feed adds a record. Records come roughly in order of time.
func (m *Machine) Feed(r *Record) {
	if r.Failed > 0 {
		m.failed++
	}
	if r.Kind == Exited {
		if t := m.threads[r.TID]; t != nil {
			m.last(t, r)
			m.leave(t, r.NS)
			m.forget(t)
		}
		if len(m.ended) >= maxEnded {
			clear(m.ended)
		}
		m.ended[r.TID] = r.NS
		m.pending = append(m.pending, change{Record: exact.Record{NS: r.NS - r.NS%unitNS, TID: r.TID, Kind: exact.Exited, Before33: r.Before33}})
		return
	}
	if at, ok := m.ended[r.TID]; ok && r.NS < at+endedNS {
		return
	}
	t := m.threads[r.TID]
	if r.Failed > 0 {
		if t != nil {
			m.unknown(t, max(r.InNS, t.atNS))
		}
		return
	}
	if r.Thread == 0 {
		return
	}
	if t != nil && t.address != r.Thread {
		m.leave(t, r.NS)
		m.forget(t)
		t = nil // the native thread now runs another Ruby thread
	}
	if t == nil {
		if len(m.threads) >= maxThreads {
			return
		}
		// A new thread begins without the GVL, when it first gets a CPU. If this time is unknown, ddtop takes the time
		// of the record instead.
		from := cmp.Or(r.InNS, r.NS)
		t = &thread{tid: r.TID, address: r.Thread, state: released, blocked: true, atNS: from - 1, sinceNS: from}
		m.threads[r.TID], m.of[r.Thread] = t, r.TID
	}
	if r.Kind == Began {
		if t.atNS < r.NS {
			m.move(t, r, r.NS, r.state())
		}
	} else {
		if !r.OfMove {
			m.woke(t, r)
		}
		m.interval(t, r)
		if !r.OfMove {
			m.does(t, r)
		}
	}
	m.see(r)
	if !r.Before33 {
		t.queues.released, t.queues.sawNS, t.queues.beforeNS = r.state() == released, 0, 0
		if r.Kind == Clock && r.state() == running {
			m.ticks[m.tick] = r.NS
			m.tick = (m.tick + 1) % maxTicks
		}
		m.joined(r)
	}
	var ran Named
	switch r.state() {
	case running:
		ran = r.Stack // the stack that the thread runs now
	case waiting:
		if r.Stack != nil {
			t.stack = r.Stack
		}
	}
	m.tell(r, r.NS, r.state(), true, ran)
	if r.Work != nil || r.Ends {
		x := change{does: true, doing: sampler.Doing{Kind: sampler.DoingWorks}, work: r.Work}
		x.NS, x.TID = r.WorkNS-r.WorkNS%unitNS, r.TID
		m.pending = slices.Insert(m.pending, m.placeOf(x.NS), x)
	}
	t.delayNS = r.DelayNS
	t.atNS, t.blocked, t.cfp, t.pc, t.sp = r.NS, r.inCall() || r.Kind == Began, r.CFP, r.PC, r.SP
	t.call, t.args, t.out = r.Name, r.Args, r.Kind == Out
}

// placeOf returns the index at which a change with the time ns must be inserted into pending. It searches from the end,
// because most changes belong near the end.
func (m *Machine) placeOf(ns int64) int {
	i := len(m.pending)
	for i > 0 && m.pending[i-1].NS > ns {
		i--
	}
	return i
}

// Lost handles a loss of records. The last of the lost records has the time ns. So the state of each thread is unknown
// from ns until the thread's next record.
func (m *Machine) Lost(ns int64) {
	for _, t := range m.threads {
		m.unknown(t, max(ns, t.atNS))
	}
}

// unknown makes the Machine forget a thread, because the thread's state is not known from the given time on.
func (m *Machine) unknown(t *thread, at int64) {
	m.leave(t, at)
	m.forget(t)
	m.pending = append(m.pending, change{Record: exact.Record{NS: at - at%unitNS, TID: t.tid, Kind: exact.Exited}})
}

// forget removes a thread that has ended.
func (m *Machine) forget(t *thread) {
	delete(m.threads, t.tid)
	if t.state == waiting {
		m.waiters--
	}
	if m.of[t.address] == t.tid {
		delete(m.of, t.address)
	}
}

// last handles a thread that has ended. It finds out what the thread did between the last time that it got a CPU and
// its end. The record of the end does not show this. So last assumes that the thread ran Ruby until it gave the GVL
// away.
func (m *Machine) last(t *thread, r *Record) {
	of := *r
	of.Kind, of.Thread, of.DelayNS = Out, t.address, t.delayNS
	begin, end := max(r.InNS, t.atNS)+backNS, r.NS-exitNS
	if r.GaveNS > t.atNS {
		end = min(r.GaveNS, r.NS)
	}
	if t.state != running && begin < end {
		m.move(t, &of, begin, running)
	}
	m.move(t, &of, max(end, t.sinceNS), released)
}

// interval finds out what a thread did during an interval on a CPU. The record is from the end of this interval.
func (m *Machine) interval(t *thread, r *Record) {
	is := r.state()
	if t.joinedNS != 0 {
		joined := m.joinedAt(t)
		t.joinedNS = 0
		if t.state == released && (r.InNS > t.queues.sawNS || r.InNS == 0) {
			m.move(t, r, joined, waiting)
		}
	}
	put := m.put(t, r)
	// The thread could run Ruby from the time ready on, and stopped running it at the time end. If the thread is in a
	// system call now, end is just before this call. Otherwise the time is unknown, and end is a guess: the middle
	// between ready and now.
	ready := t.atNS
	blocked := r.InNS > t.atNS && t.blocked // true if the thread came out of a system call when it got the CPU
	if r.InNS > t.atNS {
		ready = min(r.InNS+backNS, r.NS)
	}
	end := ready + (r.NS-ready)/2
	called := r.inCall()
	if r.Kind == Clock && !r.OfMove && blocked {
		t.countTick(is == released && (sends[r.Name] == 0 || r.large()))
	}
	if blocked && is == released {
		end = ready + t.held(r.NS-ready)
	}
	switch {
	case called && !r.Asleep:
		end = max(r.NS-sends[r.Name], ready)
	case called:
		end = max(r.NS-leadNS, ready)
	}
	gave := r.GaveNS
	if gave <= t.atNS || gave > r.NS || m.slept(t, gave) {
		gave = 0
	}
	begin := ready
	switch {
	case blocked || t.state != released:
	case called && gave == 0:
		last, _ := m.without(t, ready, end)
		begin = max(end-t.held(end-ready), last)
	default:
		// the thread came back from code without the GVL at an unknown time
		begin = m.since(t, ready, cmp.Or(gave, end))
	}
	ran := r.CFP != t.cfp || r.PC != t.pc || r.SP != t.sp // Ruby's code has moved on since the last record
	// true if the thread is still in the system call of its last record
	same := !ran && r.large() && r.Name == t.call && r.Args == t.args
	if !r.Before33 && t.state == released && r.WakerOwner == t.address && r.WokenNS > t.atNS {
		// the thread that woke this thread up had first put it into the queue, or had given it the GVL
		m.move(t, r, put, waiting)
		begin = ready
	}
	if gave != 0 {
		if t.state != running {
			m.move(t, r, min(begin, gave), running)
		}
		m.move(t, r, gave, released)
		switch {
		case is == waiting && called:
			m.move(t, r, max(gave, end), waiting)
		case is == running:
			m.move(t, r, m.regained(t, r, gave, r.NS), is)
		case is == waiting:
			m.move(t, r, gave+(r.NS-gave)/2, is)
		case called && r.Before33 && r.Owner == 0 && end-gave > againNS:
			// The thread that t woke up has not taken the GVL yet, and no thread owns the GVL. So t took the GVL back
			// for a while before its present call.
			m.turnOf(t, r, m.regained(t, r, gave, end), end)
		}
		return
	}
	switch {
	case t.state == is && is == running:
	case t.state == running:
		if called {
			m.freeWithin(t, r, ready, end)
		}
		m.move(t, r, end, is)
	case is == running:
		m.move(t, r, begin, running)
		if blocked {
			m.freeWithin(t, r, begin, r.NS)
		}
	case t.state == waiting && is == waiting:
		switch {
		case ran:
			m.turnOf(t, r, ready, end)
		case end-ready > againNS:
			// The thread waits at the same place of its code as before. But it was on a CPU for so long that it must
			// have had the GVL in between.
			m.turnOf(t, r, ready, ready+t.held(end-ready))
		}
		m.move(t, r, end, waiting)
	case t.state == waiting:
		m.move(t, r, ready, running)
		m.move(t, r, end, is)
	default: // the thread had no GVL at its last record, and has none now
		if ran || blocked && called && is == released && !same {
			if !blocked && !called {
				// The thread was in code without the GVL at the beginning and at the end of the interval. So it
				// probably was without the GVL during most of the interval.
				end = min(begin+leadNS, r.NS)
			}
			m.turnsOf(t, r, begin, end, blocked && called)
		}
		m.move(t, r, end, is)
	}
}

func (m *Machine) move(t *thread, r *Record, at int64, to state) {
	if t.state == to {
		return
	}
	if to != running {
		m.leave(t, at)
	}
	stack := t.stack
	if t.state != waiting {
		stack = nil
	} else {
		m.waiters--
	}
	if to == waiting {
		m.waiters++
	}
	t.state, t.sinceNS, t.stack, t.doing = to, at, nil, sampler.Doing{}
	if to == running {
		if h := m.holder; h != nil && h != t {
			m.leave(h, at)
		}
		m.holder = t
	}
	if to != running {
		stack = nil
	}
	m.tell(r, at, to, false, stack)
}

// leave ends a thread's hold of the GVL, if the thread holds it.
func (m *Machine) leave(t *thread, at int64) {
	if m.holder != t {
		return
	}
	m.holder = nil
	m.turns[m.turn] = span{t.tid, t.sinceNS, at}
	m.turn = (m.turn + 1) % maxTurns
}

// tell adds a change to the queue of changes: at a time (at), the thread begins a state (is). r.Owner is the GVL's
// owner at the time of the record r. So tell uses r.Owner only if whole is true, which means that the change has the
// same time as r. stack is the stack of a wait that ends, or the stack that the thread runs.
func (m *Machine) tell(r *Record, at int64, is state, whole bool, stack Named) {
	x := exact.Record{NS: at - at%unitNS, TID: r.TID, Kind: exact.Unlocked, Before33: r.Before33, Some: true, Thread: r.Thread, DelayNS: r.DelayNS - r.DelayNS%unitNS}
	if r.Kind == Began {
		x.Kind = exact.Began
	}
	if whole {
		x.Owner = r.Owner
	}
	switch is {
	case running:
		x.Owner, x.Linked = r.Thread, true
	case waiting:
		x.Queued = true
	}
	if is != running && r.Before33 && x.Owner == r.Thread {
		x.Owner = 0
	}
	m.pending = append(m.pending, change{Record: x, stack: stack})
}

// Advance passes all changes up to a time to the exact.Machine, in order. It stops early at a change whose stack or
// request has no name yet. It returns the time that it has reached. If ddtop later finds a change from before this
// time, the change gets a later time.
func (m *Machine) Advance(untilNS int64) int64 {
	untilNS -= untilNS % unitNS
	m.queue(untilNS)
	byTime := func(a, b change) int { return cmp.Compare(a.NS, b.NS) }
	if !slices.IsSortedFunc(m.pending, byTime) {
		slices.SortStableFunc(m.pending, byTime)
	}
	n := 0
	for ; n < len(m.pending) && m.pending[n].NS <= untilNS; n++ {
		x := &m.pending[n]
		if held := len(m.pending)-n < maxHeld; held && (x.stack != nil && !x.stack.Ready() || x.work != nil && !x.work.Ready()) {
			untilNS = x.NS - unitNS
			break
		}
		if x.stack != nil {
			x.Stack, x.Resumes = x.stack.Name()
		}
		if x.work != nil {
			x.doing.Work = x.work.ID()
			x.doing.Unfound = x.doing.Work == 0
		}
		if x.does {
			m.to.Does(x.TID, x.NS, x.doing)
			continue
		}
		m.to.Feed(&x.Record)
	}
	m.pending = slices.Delete(m.pending, 0, n)
	m.to.Passed(untilNS + unitNS - 1)
	return untilNS
}
