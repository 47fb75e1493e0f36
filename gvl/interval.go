package gvl

import (
	"cmp"

	"github.com/ddtop/ddtop/sampler"
)

// Interval is a period in which a thread was in one state, with one stack, for one request or none. While a thread is
// listed, its intervals follow each other without gap or overlap.
type Interval struct {
	Thread sampler.ThreadID
	Ractor sampler.RactorID
	State  State
	// Detail is the state's detail at the interval's end. A fact that became known only during a wait applies to the
	// whole wait. If the samples around the interval are too far apart to show its state, Reason is ReasonNotSampled.
	Detail Detail
	// Stack is zero if no stack was read. Serving is the request that the thread worked for. It was read with the
	// stack.
	Stack   sampler.StackID
	Serving sampler.Serving
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. ToNS is later than FromNS.
	FromNS, ToNS int64
	// ResolutionNS is the time between the two samples around the interval's beginning, in ns. It is zero if the
	// beginning is known exactly.
	ResolutionNS int64
	// Slot is a small number that no other listed thread has. Consumers use it as an index into slices with an entry
	// for each thread.
	Slot int
}

// NS returns how long the interval is, in ns.
func (i *Interval) NS() int64 { return i.ToNS - i.FromNS }

// Sampled reports whether samples show anything about this time.
func (i *Interval) Sampled() bool { return i.State != Unknown || i.Detail.Reason != ReasonNotSampled }

// Wait is one wait for the GVL, of any kind, with the state before it. So texts can say "100 ms reading from the
// database, then 100 ms queueing".
type Wait struct {
	// Thread is 0 and Slot is -1 if the thread lived so briefly that no sample listed it.
	Thread sampler.ThreadID
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. If InProgress is set, the wait has not ended, and ToNS is the time of
	// the last sample.
	FromNS, ToNS int64
	InProgress   bool
	// LeastNS and MostNS are bounds of the wait's length, in ns. LeastNS is the time for which the thread certainly did
	// not run. MostNS is the longest wait that the samples allow. If the thread may have run unseen in between, the
	// wait may in fact be several waits.
	LeastNS, MostNS int64
	// Cut is set if samples did not see the wait's beginning or its end. The wait can then be longer than MostNS.
	Cut bool
	// Uncounted is set if the thread's counters were never read. Then nothing proves how long the wait was.
	Uncounted bool
	// After is what the thread did before it wanted the GVL. It is Unknown if no sample showed this.
	After State
	// Before is the state that ended when the wait began. Its DurationNS is the length of this state as samples show
	// it.
	Before ThreadState
	Slot   int
	// Exact is set if changes of the GVL (sampler.Change) show both ends of the wait to the microsecond. For a wait in
	// progress, they show its beginning. If Exact is not set, the fields below are zero.
	Exact bool
	// HandoverNS is the part of the wait after the thread was chosen as the next holder and before it ran, in ns. Ruby
	// up to 3.2 chooses no thread. There, this part begins when the last holder released the GVL. NoCPUNS is the part
	// in which the thread was ready to run but had no CPU, in ns. HandoverNS and NoCPUNS can overlap.
	HandoverNS, NoCPUNS int64
	// FirstHolder held the GVL when the wait began, or was chosen to get it. LastHolder was the last holder before the
	// wait ended. Each is zero if no thread held the GVL, or if no sample listed the holder.
	FirstHolder, LastHolder sampler.ThreadID
	// Stack is the thread's stack at the wait's end, if a change reported it (sampler.Change.Stack). It is then also
	// the stack of Before. If Stack is zero, the stack of Before is the one that samples saw.
	Stack sampler.StackID
}

// NS returns how long the wait took, or has taken so far, in ns.
func (w *Wait) NS() int64 { return w.ToNS - w.FromNS }

// Open reports whether the wait may be longer than the part that samples showed.
func (w *Wait) Open() bool { return w.InProgress || w.Cut }

// SureNS returns for how long the thread certainly waited without a break, in ns. If its counters were not read, this
// is the length that samples show.
func (w *Wait) SureNS() int64 {
	if w.Uncounted {
		return w.NS()
	}
	return min(w.LeastNS, w.MostNS)
}

// Told returns the wait's length in the form that texts show: a number or a bound.
func (w *Wait) Told() Bounded { return BoundedOf(min(w.LeastNS, w.MostNS), w.MostNS, w.Open()) }

// SetBounds sets LeastNS and MostNS of a wait that ended at byNS at the latest. span is what samples show of the wait.
// seenNS is the time since which samples have come without a gap.
func (w *Wait) SetBounds(span *WaitSpan, byNS, seenNS int64) {
	if w.Exact {
		w.LeastNS, w.MostNS = w.NS(), w.NS()
		return
	}
	from := w.FromNS
	w.Uncounted = span.uncounted
	switch {
	case span.ByNS == 0: // nothing more is known
	case span.afterNS == 0 || span.afterNS < seenNS:
		w.Cut = true
	default:
		from = min(from, span.afterNS)
	}
	w.MostNS = max(w.ToNS, byNS) - from
	w.LeastNS = span.stillNS()
	if w.Cut {
		w.MostNS = max(w.MostNS, w.LeastNS) // LeastNS is proven, even for a time without samples
	}
}

// Unlisted describes the use of a GVL by threads that lived so briefly that no sample listed them. Only the records of
// changes of the GVL show them (sampler.Changes).
type Unlisted struct {
	// Holds is set if a thread that no sample listed holds the GVL. LockInterval.Thread is then 0.
	Holds bool
	// Waiters is how many threads in LockInterval.Waiters appear in no sample.
	Waiters int64
}

// LockInterval is a period in which one thread, or none, held a ractor's GVL, and the number of waiting threads did not
// change. A Consumer receives it earlier than the Intervals of the same time. These are held back for late answers of
// the kernel, which do not change a LockInterval.
type LockInterval struct {
	Ractor sampler.RactorID
	// Thread is the holder, Stack its stack, and State how it held the GVL (Running, GC or Stalled). Thread is zero if
	// no thread held it. Stack is zero if it could not be read.
	Thread sampler.ThreadID
	Stack  sampler.StackID
	State  State
	// Turn is the holder's stack in this hold. At first it is the stack with which the holder continued
	// (sampler.Change.Resumes, or its whole Stack after a time slice). Later it is the stack that a sample read. It is
	// zero if not known.
	//
	// Stack, in contrast, can come from an earlier hold of this thread. It is more likely to be code that holds the GVL
	// for long. Use Stack for sums over many holds, and Turn for a single hold.
	Turn sampler.StackID
	// Serving is the request that the holder worked for, read together with its stack.
	Serving sampler.Serving
	// GCReason is why the holder collects garbage (Detail.GCReason). It is set only if the holder is in state GC.
	GCReason uint16
	// Stopped is set if a signal or a debugger stopped the holder, or if its cgroup is frozen. In this case no code of
	// the process is to blame for the waits.
	Stopped  bool
	Unlisted Unlisted
	// Waiters is how many threads waited.
	Waiters      int64
	FromNS, ToNS int64
}

// NS returns how long the interval is, in ns.
func (i *LockInterval) NS() int64 { return i.ToNS - i.FromNS }

// WaitNS returns for how long threads waited in this interval, added up over all waiting threads, in ns.
func (i *LockInterval) WaitNS() int64 { return i.Waiters * i.NS() }

// Blamed reports whether the holder is to blame for the waits in this interval. The result is false if a listed thread
// did not hold the GVL, or if the holder was stopped from outside.
func (i *LockInterval) Blamed() bool { return i.Thread != 0 && !i.Stopped }

// GCInterval is a period in which a thread was inside the collector.
type GCInterval struct {
	// Stack is the stack of the collecting thread. If this thread is not known, it is the stack of a holder of the GVL.
	Stack        sampler.StackID
	Mode         sampler.GCMode
	FromNS, ToNS int64
}

// NS returns how long the interval is, in ns.
func (i *GCInterval) NS() int64 { return i.ToNS - i.FromNS }

// Tick is a sample for a Consumer, with the states of its threads and the time since the last sample.
type Tick struct {
	*sampler.Sample
	// States and Slots are parallel to Threads. The slot of a thread that is listed a second time is -1.
	States []ThreadState
	Slots  []int
	// Begun has the indexes, in Threads, of the threads that were not listed before.
	Begun []int
	// FromNS and ToNS are the times of the last sample and of this one. They are equal for the first sample.
	FromNS, ToNS int64
	// MidNS is the time at which the last sample's states end and this sample's states begin. It lies between the two
	// samples.
	MidNS int64
	// First is set if there was no earlier sample. Gap is set if nothing is known of the time since the last sample.
	First, Gap bool
	// Exact is set if all changes of the GVL since the last sample are known.
	Exact bool
	// Stopped is set if a thread that holds a GVL is stopped by a signal or a debugger, or frozen by its cgroup.
	Stopped bool
	// Payer is the stack to which the time of garbage collections is charged from this sample on. PayerKnown is set if
	// there is such a stack.
	Payer      sampler.StackID
	PayerKnown bool
}

// Consumer receives the results of a Stream. The arguments of its methods are valid only during the call.
type Consumer interface {
	// Interval receives an interval whose state and stack are final.
	Interval(*Interval)
	// Waited receives a wait as soon as samples or changes show that it has ended.
	Waited(*Wait)
	// Lock receives a period of a ractor's GVL. The periods of one ractor come in order of time.
	Lock(*LockInterval)
	// Collecting receives a period of garbage collection.
	Collecting(*GCInterval)
	// Ended reports that the thread with this slot is not in any sample after atNS. All intervals of the thread were
	// delivered before this call.
	Ended(slot int, atNS int64)
	// Tick receives a sample, after the intervals that became final with it.
	Tick(*Tick)
}

// Ignore is a Consumer that ignores everything. A consumer that needs only some of the methods embeds Ignore.
type Ignore struct{}

func (Ignore) Interval(*Interval)     {}
func (Ignore) Waited(*Wait)           {}
func (Ignore) Lock(*LockInterval)     {}
func (Ignore) Collecting(*GCInterval) {}
func (Ignore) Ended(int, int64)       {}
func (Ignore) Tick(*Tick)             {}

// Quality returns what is known about this one sample, as a sampler.Quality. Callers add it to the Quality of their
// figures.
func (k *Tick) Quality() sampler.Quality {
	q := sampler.Quality{Samples: 1}
	if k.Depth == sampler.StackTick {
		q.Stacks = 1
	}
	if k.First || k.Gap {
		return q
	}
	q.SpanNS = k.ToNS - k.FromNS
	for i := range k.Changes.List {
		switch d := &k.Changes.List[i].Doing; {
		case d.Work != 0:
			q.Found++
		case d.Unfound:
			q.Unfound++
		}
	}
	switch {
	case k.Exact:
		if k.Depth != sampler.StackTick && (k.looked() || q.Found > 0) {
			q.Looks = 1
		}
	case k.Slow:
		q.IdleNS = q.SpanNS
	default:
		q.PolledNS, q.PolledSteps = q.SpanNS, 1
	}
	return q
}

// looked reports whether the sample read the stack of a thread without the GVL. Most LockTicks do not: they read such a
// stack only if the thread has begun something new.
func (k *Tick) looked() bool {
	for i := range k.Threads {
		if k.Threads[i].Quality&sampler.StackFresh != 0 && !k.States[i].State.Held() {
			return true
		}
	}
	return false
}

// MaxTimeNS is the largest time of a sample that TimeOf accepts: 73 years. A damaged recording can contain any time.
const MaxTimeNS = 1 << 61

// TimeOf returns a sample's time. Times below 0 or above MaxTimeNS are set to this bound.
func TimeOf(s *sampler.Sample) int64 { return min(max(s.TimeNS, 0), MaxTimeNS) }

// Ratio returns a divided by b. It returns zero if b is not positive.
func Ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// TopKey returns the key with the largest value, and this value. If several values are equal, it takes the smallest
// key.
func TopKey[K cmp.Ordered](m map[K]int64) (key K, value int64) {
	for k, v := range m {
		if v > value || v == value && k < key {
			key, value = k, v
		}
	}
	return key, value
}

// TimeSliceNS is how long Ruby code may hold the GVL before it lets other threads run, in ns. It is the default of
// RUBY_THREAD_TIMESLICE, 100 ms (thread.c).
const TimeSliceNS = 100e6
