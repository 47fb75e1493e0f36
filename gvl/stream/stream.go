package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/listed"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxSegments limits the periods of different states that are kept between two readings of one thread's stack. If
	// there are more, the time of all of them goes to the last known stack. With samples at 1 kHz and stacks at 100 Hz
	// there are at most 10 periods. There can be more if a budget has lowered the rate of stacks.
	maxSegments = 32
	// maxUntold limits the stacks that are kept for a single period whose state is not known yet. If there are more,
	// the remaining time goes to the last stack.
	maxUntold = 128
	// maxUntoldMixed limits what is held back for a thread. This is the stacks of periods with an unknown state, plus
	// the pieces of known time after these periods. Known time must wait too, because intervals are delivered in order.
	maxUntoldMixed = 4096
	// openState marks a state that is not known yet. No Consumer sees it.
	openState = gvl.NumStates
)

// Stream makes Intervals from samples and their states, and passes them to its consumers. It is the only place where
// time is divided into intervals. Stream knows the threads. For each thread, a tracker decides what the evidence shows:
//
//   - Half of the time between two samples goes to the state of the first, half to the state of the second. A thread
//     that is new began in the middle between the two samples. A thread that is gone ended in the middle.
//   - If two samples are too far apart, or samples were lost, threads are Unknown in between. They are not Unknown if
//     all changes of the GVL are known.
//   - If a thread is Unknown because the kernel has not answered, the answer fills this time if it comes soon enough
//     (Reach.BackNS).
//   - If all changes of the GVL between two samples are known (sampler.Changes), the threads' time is divided at the
//     changes. The times are then exact. But samples still decide what a thread did while it held the GVL (GC,
//     Stalled), and why it had released it. An interval without a sample gets this from the thread's previous interval,
//     or from the next one if there is none before. If a sample contradicts the changes, the changes are right.
//   - The time between two readings of a stack is divided in the same way, with one exception. If only one of the two
//     readings was in the state of an interval, the interval goes to that reading's stack. For example, a thread that
//     ran and then began to read a socket was not reading while it ran.
//   - The request or job that the thread works for is read together with the stack, and is assigned in the same way.
//   - Changes may show that the thread held the GVL in an interval, while neither reading saw it with the GVL. The
//     interval then gets the last stack with which the thread was seen to hold the GVL for the same work. The same rule
//     applies to intervals without the GVL.
//
// So an interval is settled (final) some time after its end: at the next reading of the stack, or when the kernel's
// answer has come. In the steady state Stream allocates memory only for the waits of threads that no sample lists. It
// is not safe for concurrent use.
type Stream struct {
	steps stepper
	table listed.Table[thread]
	to    []gvl.Consumer
	tick  gvl.Tick
	// slots and begun are the fields of Tick with the same names. listed has the threads of the sample. If a thread is
	// listed twice, the second entry is nil.
	slots, begun []int
	listed       []*thread
	// step, sample and states are what Feed is working on. stopped is true if the sample shows a thread that holds a
	// GVL and is stopped from outside.
	step    step
	sample  *sampler.Sample
	states  []gvl.ThreadState
	stopped bool
	free    []int
	used    int // the number of used slots
	out     gvl.Interval
	// wait and open are buffers that are used again and again. The field wait is for an ended wait that is passed to
	// consumers, and the field open for a wait in progress.
	wait, open gvl.Wait
	// late has waits of threads that consumers do not know until the next Tick. They are passed on after this Tick.
	late    []gvl.Wait
	spare   []buffers // memory of threads that have ended, for reuse
	kept    int       // number of segments of all threads
	locks   []lockLane
	lock    int // index of the lane that lockOf found last
	outLock gvl.LockInterval
	gc      gvl.GCInterval // the interval in progress, while during is true
	outGC   gvl.GCInterval
	during  bool
	missing int64
	seenNS  int64 // end of the last gap, or time of the first sample
	pending gvl.Interval
	main    mainGVL
	notes   kernelNotes
	// unchosen is true for Ruby up to 3.2. There, the scheduler does not choose the next holder before this thread gets
	// the GVL.
	unchosen bool
}

// New returns a Stream of the target p.
func New(p sampler.Process) *Stream {
	s := &Stream{steps: newStepper(p), table: listed.New[thread](), notes: newKernelNotes(p), unchosen: p.Era != sampler.EraSched}
	s.main.s = s
	return s
}

// Attach adds a consumer. Call it before the first Feed. Consumers are called in the order of Attach.
func (s *Stream) Attach(c gvl.Consumer) { s.to = append(s.to, c) }

// NotSampledNS returns the total length of the gaps between samples so far, in ns.
func (s *Stream) NotSampledNS() int64 { return s.missing }

// Feed adds one sample. states has the states of x.Threads, in the same order. If the sample's time is before the last
// one's, it gets the time of the last one.
func (s *Stream) Feed(x *sampler.Sample, states []gvl.ThreadState) {
	s.step = s.steps.next(x)
	s.step.gap = s.step.gap && !s.main.tellsAll(x)
	s.sample, s.states = x, states
	st := &s.step
	if st.first || st.gap {
		s.seenNS = st.toNS
	}
	if st.gap {
		s.missing += st.toNS - st.fromNS
	}
	s.list()
	s.main.changes()
	for i, r := range s.listed {
		if r != nil {
			r.by.sample(&s.states[i], &x.Threads[i])
		}
	}
	s.main.missedUnlisted()
	s.table.End(func(rec *listed.Record[thread]) { rec.V.gone(rec.V.by.goneNS(), st.gap) })
	s.moveLocks(*st, x.Depth)
	payer, known := s.collect(x, states, *st)
	s.tick = gvl.Tick{
		Sample: x, States: states, Slots: s.slots, Begun: s.begun, FromNS: st.fromNS, MidNS: st.midNS, ToNS: st.toNS, First: st.first, Gap: st.gap,
		Exact: s.main.live, Stopped: s.stopped, Payer: payer, PayerKnown: known,
	}
	for _, c := range s.to {
		c.Tick(&s.tick)
	}
	s.tick.Sample, s.tick.States, s.sample, s.states = nil, nil, nil, nil
	s.handOutLate()
}

// list finds the threads of the sample, and gives each new thread a slot (a number for consumers).
func (s *Stream) list() {
	s.begun, s.stopped = s.begun[:0], false
	if s.sameThreads() {
		s.table.BeginSame()
		return
	}
	s.slots, s.listed = s.slots[:0], s.listed[:0]
	s.table.Begin(len(s.states))
	for i := range s.states {
		rec, fresh := s.table.Find(i, s.states[i].Thread)
		if rec == nil {
			s.listed, s.slots = append(s.listed, nil), append(s.slots, -1)
			continue
		}
		r := &rec.V
		if fresh {
			s.begun = append(s.begun, i)
			s.start(r, i)
		}
		s.listed, s.slots = append(s.listed, r), append(s.slots, r.slot)
	}
}

func (s *Stream) sameThreads() bool {
	if len(s.listed) != len(s.states) {
		return false
	}
	for i, r := range s.listed {
		if r == nil || r.id != s.states[i].Thread {
			return false
		}
	}
	return true
}

func (s *Stream) start(r *thread, i int) {
	ts := &s.states[i]
	r.s, r.id, r.ractor, r.fresh = s, ts.Thread, ts.Ractor, true
	r.look, r.stackState = lookAt(&s.sample.Threads[i]), ts.State
	if n := len(s.spare); n > 0 {
		r.buffers, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	if n := len(s.free); n > 0 {
		r.slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r.slot = s.used
		s.used++
	}
	s.main.track(r)
}

// Finish ends the stream and all its threads at the time of the last sample. It passes all time that is not settled to
// the consumers, with the last known stacks.
func (s *Stream) Finish() {
	s.table.Begin(0)
	s.table.Changed = true
	s.table.End(func(rec *listed.Record[thread]) { rec.V.gone(s.steps.lastNS, true) })
	s.SettleLocks()
	s.listed, s.locks, s.during, s.kept, s.main = s.listed[:0], s.locks[:0], false, 0, mainGVL{s: s}
	s.steps = stepper{reach: s.steps.reach}
}

// handOutLate passes on the waits in late. Consumers know their threads now.
func (s *Stream) handOutLate() {
	if len(s.late) == 0 {
		return
	}
	for i := range s.late {
		for _, c := range s.to {
			c.Waited(&s.late[i])
		}
	}
	if s.late = s.late[:0]; cap(s.late) > keptWaits {
		s.late = nil
	}
}

// Waiting calls fn with each wait in progress.
func (s *Stream) Waiting(fn func(*gvl.Wait)) {
	for _, rec := range s.table.ByID {
		if w, ok := rec.V.waits(); ok {
			fn(&w)
		}
	}
}

// WaitOf returns the wait for the GVL that a thread is in now. ok is false if the thread does not wait for the GVL.
func (s *Stream) WaitOf(id sampler.ThreadID) (w gvl.Wait, ok bool) {
	if rec := s.table.Get(id); rec != nil {
		return rec.V.waits()
	}
	return gvl.Wait{}, false
}

// SlotOf returns the slot of a listed thread.
func (s *Stream) SlotOf(id sampler.ThreadID) (slot int, ok bool) {
	rec := s.table.Get(id)
	if rec == nil {
		return 0, false
	}
	return rec.V.slot, true
}

// Pending calls fn with the time of a listed thread that is not settled yet, up to the last sample. The state and the
// stack of this time are preliminary: they can still change.
func (s *Stream) Pending(id sampler.ThreadID, fn func(*gvl.Interval)) {
	if rec := s.table.Get(id); rec != nil {
		rec.V.unsettled(fn)
	}
}

// collect passes time inside the garbage collector to the consumers. It returns payer, the stack to which time inside
// the collector is charged from this sample on.
func (s *Stream) collect(x *sampler.Sample, states []gvl.ThreadState, st step) (payer sampler.StackID, known bool) {
	if s.during && !st.gap {
		s.collecting(st.fromNS, st.midNS)
	}
	s.during = x.GC.Valid && x.GC.During
	if x.GC.Valid {
		payer, known = gcHolder(states)
		s.gc.Stack, s.gc.Mode = payer, x.GC.Mode
	}
	if s.during && !st.gap {
		s.collecting(st.midNS, st.toNS)
	}
	return payer, known
}

func (s *Stream) collecting(fromNS, toNS int64) {
	if toNS <= fromNS {
		return
	}
	s.outGC = s.gc
	s.outGC.FromNS, s.outGC.ToNS = fromNS, toNS
	for _, c := range s.to {
		c.Collecting(&s.outGC)
	}
}

// LastNS returns the time of the last sample, CLOCK_MONOTONIC in ns.
func (s *Stream) LastNS() int64 { return s.steps.lastNS }

// gcHolder returns the stack to which garbage collection is charged. It is the stack of the thread that collects. If no
// thread collects, it is the stack of the GVL's holder.
func gcHolder(states []gvl.ThreadState) (sampler.StackID, bool) {
	var stack sampler.StackID
	found := false
	for i := range states {
		if states[i].State == gvl.GC {
			return states[i].Stack, true
		}
		if states[i].State.Held() && !found {
			stack, found = states[i].Stack, true
		}
	}
	return stack, found
}
