package gvl

import (
	"cmp"

	"github.com/ddtop/ddtop/sampler"
)

// Interval is a stretch of time in which a thread was in one state, with one stack, for one request or none. The intervals of a
// thread follow each other without a gap and without overlap from when it was listed first until it was listed no more.
type Interval struct {
	Thread sampler.ThreadID
	Ractor sampler.RactorID
	State  State
	// Detail is what was known of the state at its end: what was learned late of a wait holds from its beginning on. Its
	// Reason is ReasonNotSampled for time that is too long to be known from the samples around it.
	Detail Detail
	// Stack is 0 where none was read. Serving is for whom and for what the thread worked, read with it.
	Stack   sampler.StackID
	Serving sampler.Serving
	// FromNS and ToNS are CLOCK_MONOTONIC in ns; ToNS is later than FromNS.
	FromNS, ToNS int64
	// ResolutionNS says how the time is known: the state was seen to begin between two samples that lie so far apart, in ns.
	// 0: exactly.
	ResolutionNS int64
	// Slot is a small number that the thread alone has while it is listed: an index for what a consumer keeps of threads.
	Slot int
}

// NS returns how long the interval is, in ns.
func (i *Interval) NS() int64 { return i.ToNS - i.FromNS }

// Sampled reports whether something is known of the time.
func (i *Interval) Sampled() bool { return i.State != Unknown || i.Detail.Reason != ReasonNotSampled }

// Wait is one wait for the GVL, in whichever ways the thread waited one after the other, with what came before it: "100 ms
// reading from the database, then 100 ms queueing".
type Wait struct {
	// Thread is 0, and Slot -1, for one that no sample has listed: it lived too short a time.
	Thread sampler.ThreadID
	// FromNS and ToNS are CLOCK_MONOTONIC in ns; InProgress: it goes on, and ToNS is the time of the last sample.
	FromNS, ToNS int64
	InProgress   bool
	// LeastNS and MostNS are bounds of its length, in ns: for LeastNS the thread is known not to have run, and MostNS is what it can have
	// taken as far as samples saw it. What looks like one wait may be several if the thread may have run in between.
	LeastNS, MostNS int64
	// Cut: samples did not see where it began or ended, so that it can be longer than MostNS.
	Cut bool
	// uncounted: nothing proves how long the wait was, since no counters of the thread were ever read.
	Uncounted bool
	// After is what the thread did before it wanted the GVL; Unknown when that was not seen.
	After State
	// Before is the state that ended when the wait began, Unknown when there was none: its DurationNS is how long it
	// lasted, as far as seen.
	Before ThreadState
	// Slot is the thread's.
	Slot int
	// Exact: both ends are known to the microsecond, from changes that were seen where they happened (sampler.Change); of a wait in
	// progress, its begin is. The rest is of such waits alone, 0 of others.
	Exact bool
	// HandoverNS is the part from when the thread was chosen until it ran (up to Ruby 3.2, where nobody is chosen, since the GVL was given
	// away last), NoCPUNS the part in which it was runnable and had no CPU,
	// in ns; one lies within the other or not.
	HandoverNS, NoCPUNS int64
	// FirstHolder held the GVL when the wait began, or was chosen to, LastHolder held it last before the wait ended; 0: nobody, or a
	// thread that no sample listed.
	FirstHolder, LastHolder sampler.ThreadID
	// Stack is the thread's, as copied when the wait was over (sampler.Change.Stack); Before has it, too. 0: Before has what sampling saw.
	Stack sampler.StackID
}

// NS returns how long the wait took, or has taken so far, in ns.
func (w *Wait) NS() int64 { return w.ToNS - w.FromNS }

// Open reports whether the wait can be longer than what was seen of it.
func (w *Wait) Open() bool { return w.InProgress || w.Cut }

// SureNS is for how long the wait is known to be one, in ns. A wait of a thread without counters counts with what samples saw of it.
func (w *Wait) SureNS() int64 {
	if w.Uncounted {
		return w.NS()
	}
	return min(w.LeastNS, w.MostNS)
}

// Told is the wait's length as it is told.
func (w *Wait) Told() Bounded { return BoundedOf(min(w.LeastNS, w.MostNS), w.MostNS, w.Open()) }

// SetBounds takes the bounds of a wait, of which samples say what span holds, that ended by byNS. seenNS is since when there was no
// gap in the samples.
func (w *Wait) SetBounds(span *WaitSpan, byNS, seenNS int64) {
	if w.Exact {
		w.LeastNS, w.MostNS = w.NS(), w.NS()
		return
	}
	from := w.FromNS
	w.Uncounted = span.uncounted
	switch {
	case span.ByNS == 0: // nothing but that it waited is known
	case span.afterNS == 0 || span.afterNS < seenNS:
		w.Cut = true
	default:
		from = min(from, span.afterNS)
	}
	w.MostNS = max(w.ToNS, byNS) - from
	w.LeastNS = span.stillNS()
	if w.Cut {
		w.MostNS = max(w.MostNS, w.LeastNS) // it did not run in the gap either
	}
}

// Unlisted is what threads that no sample has listed have of a GVL. They are known where all changes of it are (sampler.Changes).
type Unlisted struct {
	// Holds: one of them holds it, and LockInterval.Thread is 0.
	Holds bool
	// Waiters are those of LockInterval.Waiters that are such threads.
	Waiters int64
}

// LockInterval is a stretch of time in which a thread, or nobody, held a ractor's GVL and as many others waited for it. It
// is told from sample to sample: late answers of the kernel don't change it.
type LockInterval struct {
	Ractor sampler.RactorID
	// Thread, Stack and State are the holder, its stack (0 where it could not be read) and how it held the GVL (Running, GC
	// or Stalled); Thread 0: nobody held it.
	Thread sampler.ThreadID
	Stack  sampler.StackID
	State  State
	// Turn is the holder's stack as it was in this turn: what it had gone on with (sampler.Change.Resumes; its whole Stack after a time
	// slice), later that of a sample of it. 0: it is not known. Stack can be of an earlier turn, and has what threads hold the GVL with for
	// long all the oftener: it is for sums, Turn for what happened.
	Turn sampler.StackID
	// Serving is for whom the holder worked, as old as its stack.
	Serving sampler.Serving
	// GCReason is Detail.GCReason of a holder in GC.
	GCReason uint16
	// Stopped: the holder was stopped by a signal or a debugger, or frozen by its cgroup, so that no code of the process is to blame.
	Stopped bool
	// Unlisted is what threads had of it that lived too short a time for any sample to list them.
	Unlisted Unlisted
	// Waiters is how many threads waited.
	Waiters int64
	// FromNS and ToNS are CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
}

// NS returns how long the interval is, in ns.
func (i *LockInterval) NS() int64 { return i.ToNS - i.FromNS }

// WaitNS returns the time that threads waited in it, thread·ns.
func (i *LockInterval) WaitNS() int64 { return i.Waiters * i.NS() }

// Blamed reports whether the holder is to blame for the waiting.
func (i *LockInterval) Blamed() bool { return i.Thread != 0 && !i.Stopped }

// GCInterval is a stretch of time in which a thread was inside the collector.
type GCInterval struct {
	// Stack is that of the thread that collected, or of one that held a GVL where it could not be told; 0: not known.
	Stack sampler.StackID
	Mode  sampler.GCMode
	// FromNS and ToNS are CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
}

// NS returns how long the interval is, in ns.
func (i *GCInterval) NS() int64 { return i.ToNS - i.FromNS }

// Tick is a sample as a Consumer sees it: with the states of its threads, and the time since the last one.
type Tick struct {
	*sampler.Sample
	// States is parallel to Threads, and so is Slots; the slot of a thread that is listed a second time is -1.
	States []ThreadState
	Slots  []int
	// Begun are the indexes of the threads that were not listed before.
	Begun []int
	// FromNS is the time of the last sample, ToNS of this one, never an earlier one; both are the same for the first sample.
	FromNS, ToNS int64
	// MidNS is where the earlier state ends and the later one begins.
	MidNS int64
	// First: there was no sample before. Gap: the time since the last one is not known.
	First, Gap bool
	// Exact: all changes of the GVL since the last sample are known.
	Exact bool
	// Stopped: a thread that holds a GVL is stopped by a signal or a debugger, or frozen by its cgroup.
	Stopped bool
	// Payer is the stack that a GCInterval has which begins with the sample; PayerKnown: there is one.
	Payer      sampler.StackID
	PayerKnown bool
}

// Consumer takes what a Stream makes of samples. What it is given is valid during the call only.
type Consumer interface {
	// Interval takes a stretch of time that is settled: its state is told, and which stack it belongs to.
	Interval(*Interval)
	// Waited takes a wait that is over, as soon as that is seen.
	Waited(*Wait)
	// Lock takes a stretch of time of a ractor's GVL; those of one ractor come in order.
	Lock(*LockInterval)
	// Collecting takes a stretch of time of the collector.
	Collecting(*GCInterval)
	// Ended reports that the thread of a slot has not been listed since atNS. All its intervals were delivered before.
	Ended(slot int, atNS int64)
	// Tick takes a sample, after the intervals that it settles.
	Tick(*Tick)
}

// Ignore is a Consumer that takes nothing, for others to embed that take a part.
type Ignore struct{}

// Interval does nothing.
func (Ignore) Interval(*Interval) {}

// Waited does nothing.
func (Ignore) Waited(*Wait) {}

// Lock does nothing.
func (Ignore) Lock(*LockInterval) {}

// Collecting does nothing.
func (Ignore) Collecting(*GCInterval) {}

// Ended does nothing.
func (Ignore) Ended(int, int64) {}

// Tick does nothing.
func (Ignore) Tick(*Tick) {}

// Quality is what the stretch from the last sample to this one adds to what figures rest on.
func (k *Tick) Quality() sampler.Quality {
	q := sampler.Quality{Samples: 1}
	if k.Depth == sampler.StackTick {
		q.Stacks = 1
	}
	if k.First || k.Gap {
		return q
	}
	q.SpanNS = k.ToNS - k.FromNS
	switch {
	case k.Exact:
		if k.Depth != sampler.StackTick && k.looked() {
			q.Looks = 1
		}
	case k.Slow:
		q.IdleNS = q.SpanNS
	default:
		q.PolledNS, q.PolledSteps = q.SpanNS, 1
	}
	return q
}

// looked reports whether the sample read the stack of a thread without the GVL. A LockTick reads the stacks of holders,
// and of threads that have begun something.
func (k *Tick) looked() bool {
	for i := range k.Threads {
		if k.Threads[i].Quality&sampler.StackFresh != 0 && !k.States[i].State.Held() {
			return true
		}
	}
	return false
}

// MaxTimeNS bounds the times of samples, which a damaged recording can hold anything for: 73 years.
const MaxTimeNS = 1 << 61

// TimeOf is a sample's time, made harmless.
func TimeOf(s *sampler.Sample) int64 { return min(max(s.TimeNS, 0), MaxTimeNS) }

// Ratio returns a by b. It is 0 if b is not positive.
func Ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// TopKey returns the key with the largest value; of equal ones the smallest.
func TopKey[K cmp.Ordered](m map[K]int64) (key K, value int64) {
	for k, v := range m {
		if v > value || v == value && k < key {
			key, value = k, v
		}
	}
	return key, value
}

// TimeSliceNS is the time slice after which Ruby code lets others run (RUBY_THREAD_TIMESLICE's default, 100 ms; thread.c).
const TimeSliceNS = 100e6
