package gvl

import "github.com/ddtop/ddtop/sampler"

const (
	// maxSegments bounds the changes of state remembered between two readings of one thread's stack. Past it what is held
	// back goes to the last stack known: with 1 kHz and 100 Hz there are at most 10, more where a budget has lowered the latter.
	maxSegments = 32
	// maxUntold bounds the stacks seen in one stretch of time whose state is still to be told. Past it the last of them gets
	// the time of those that follow.
	maxUntold = 128
	// maxUntoldMixed bounds them together with the time that comes after a stretch that no sample has seen.
	maxUntoldMixed = 4096
	// openState stands for a state that is still to be told; no Consumer sees it.
	openState = NumStates
)

// Stream makes Intervals of samples and their states, and hands them to its consumers. Here alone time is cut:
//
//   - The time between two samples goes half to the state of the first, half to that of the second. A thread that is new
//     begins in the middle, one that is gone ended there.
//   - Where samples are too far apart, or were lost, threads are Unknown in between.
//   - A thread that is Unknown for lack of the kernel's answer is told by the answer, if that comes soon (Reach.BackNS).
//   - Where all changes of the GVL between two samples are known (sampler.Changes), the threads' time is cut at these. What a
//     thread did within a stretch in which it held the GVL (GC, Stalled), and for what it had released it, is the samples' to say:
//     the time is exact then, the kind is sampled. Of a stretch that no sample has seen the kind is that of the thread's last one
//     before, or of the next one where there is none. Where a sample and the changes contradict each other, the changes are right.
//   - The time between two readings of a stack is split the same way, but a stretch whose state is the state of only one of
//     the two goes to that one's stack: a thread that ran and then began to read a socket was not reading while it ran. For
//     whom the thread works was read with the stack, and goes with it. Where changes are known and neither reading saw the thread
//     hold the GVL, a stretch in which it did gets the last stack with which it was seen to, for the same work; so do the others.
//
// An interval is therefore settled a while after its end: at the next reading of the stack, or when the answer has come. In
// the steady state nothing is allocated. A Stream is not safe for concurrent use.
type Stream struct {
	steps   stepper
	table   table[streamThread]
	to      []Consumer
	tick    Tick
	slots   []int
	begun   []int
	stopped bool // a holder is, by the sample being fed
	free    []int
	used    int // slots given so far
	out     Interval
	wait    Wait
	spare   []buffers // of threads that have ended
	locks   []lockLane
	lock    int // the one found last
	outLock LockInterval
	gc      GCInterval // what goes on while during
	outGC   GCInterval
	during  bool
	missing int64
	seenNS  int64 // since when there was no gap
	pending Interval
	exact   exactStream
	// unchosen: nobody is chosen to be the next (Ruby up to 3.2).
	unchosen bool
}

// NewStream returns a Stream of the target p.
func NewStream(p sampler.Process) *Stream {
	return &Stream{steps: newStepper(p), table: newTable[streamThread](), unchosen: p.Era != sampler.EraSched}
}

// Attach gives the stream another consumer, before the first sample. They are called in the order they came in.
func (s *Stream) Attach(c Consumer) { s.to = append(s.to, c) }

// NotSampledNS returns the total length of the gaps so far, in ns.
func (s *Stream) NotSampledNS() int64 { return s.missing }

// Feed takes one sample with its states (parallel to x.Threads). Samples must come in order of time: one that does not is
// taken to be of the time of the last one.
func (s *Stream) Feed(x *sampler.Sample, states []ThreadState) {
	st := s.steps.next(x)
	begins, ended := st.midNS, st.midNS
	if st.first || st.gap {
		s.seenNS = st.toNS
	}
	if st.gap {
		begins, ended = st.toNS, st.fromNS
		s.missing += st.toNS - st.fromNS
	}
	s.slots, s.begun, s.stopped = s.slots[:0], s.begun[:0], false
	s.table.begin(len(states))
	if how := s.linked(x, st); how == exactly {
		s.feedExact(x, states, st)
	} else {
		s.feedSampled(x, states, st, begins, ended, how)
	}
	s.moveLocks(st, x.Depth)
	payer, known := s.collect(x, states, st)
	s.tick = Tick{
		Sample: x, States: states, Slots: s.slots, Begun: s.begun, FromNS: st.fromNS, MidNS: st.midNS, ToNS: st.toNS, First: st.first, Gap: st.gap,
		Exact: s.exact.live, Stopped: s.stopped, Payer: payer, PayerKnown: known,
	}
	for _, c := range s.to {
		c.Tick(&s.tick)
	}
	s.tick.Sample, s.tick.States = nil, nil
	s.handOutLate()
}

// feedSampled takes one sample by what it says itself. Threads that are new begin at one time, those that are gone end at another.
func (s *Stream) feedSampled(x *sampler.Sample, states []ThreadState, st step, begins, ended int64, how linking) {
	for i := range states {
		ts := &states[i]
		rec, fresh := s.table.at(i, ts.Thread)
		if rec == nil {
			s.slots = append(s.slots, -1)
			continue
		}
		t := &x.Threads[i]
		if how == knowing {
			ts = s.exact.corrected(&rec.v, ts)
		}
		switch r := &rec.v; {
		case fresh:
			s.list(r, ts)
			s.begun = append(s.begun, i)
			r.begin(ts, t, begins, st)
		case st.gap:
			s.end(r, ended, true)
			s.notSampled(r, st)
			r.ractor = ts.Ractor
			r.begin(ts, t, begins, st)
		default:
			s.advance(r, ts, st)
			if x.Depth == sampler.StackTick || t.Quality&sampler.StackFresh != 0 {
				s.read(r, lookAt(t), st.toNS)
			}
		}
		s.slots = append(s.slots, rec.v.slot)
		if ts.State == Waiting || ts.State.Held() {
			s.seeLock(ts, t)
		}
	}
	s.table.end(func(rec *record[streamThread]) { s.gone(&rec.v, ended, st.gap) })
}

// Finish settles what is held back, with the last stacks known, as if all threads had ended with the last sample: after it.
func (s *Stream) Finish() {
	s.table.begin(0)
	s.table.changed = true
	s.table.end(func(rec *record[streamThread]) { s.gone(&rec.v, s.steps.lastNS, true) })
	s.SettleLocks()
	s.locks, s.during, s.exact = s.locks[:0], false, exactStream{}
	s.steps = stepper{reach: s.steps.reach}
}

// collect hands out time inside the collector, and returns who pays for it from this sample on.
func (s *Stream) collect(x *sampler.Sample, states []ThreadState, st step) (payer sampler.StackID, known bool) {
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
