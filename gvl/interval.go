package gvl

import (
	"cmp"

	"github.com/ddtop/ddtop/sampler"
)

// Interval is a period in which a thread was in one state, with one stack, for one request or none. The intervals of a
// thread follow each other without a gap and without overlap while it is listed.
type Interval struct {
	Thread sampler.ThreadID
	Ractor sampler.RactorID
	State  State
	// Detail is the state's detail at the interval's end. A fact about a wait that became known late applies from the
	// wait's beginning. Reason is ReasonNotSampled if the interval is so long that the samples around it do not show
	// its state.
	Detail Detail
	// Stack is zero if none was read. Serving is the request that the thread worked for, read with the stack.
	Stack   sampler.StackID
	Serving sampler.Serving
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. ToNS is later than FromNS.
	FromNS, ToNS int64
	// ResolutionNS is the time between the two samples around the interval's beginning, in ns. It is zero if the
	// beginning is known exactly.
	ResolutionNS int64
	// Slot is a small number that only this thread has while it is listed: an index for a consumer's records.
	Slot int
}

// NS returns how long the interval is, in ns.
func (i *Interval) NS() int64 { return i.ToNS - i.FromNS }

// Sampled reports whether something is known of the time.
func (i *Interval) Sampled() bool { return i.State != Unknown || i.Detail.Reason != ReasonNotSampled }

// Wait is one wait for the GVL, of any kind, with what came before it: "100 ms reading from the database, then 100 ms
// queueing".
type Wait struct {
	// Thread is 0 and Slot -1 if no sample has listed the thread: it lived too short a time.
	Thread sampler.ThreadID
	// FromNS and ToNS are CLOCK_MONOTONIC in ns. If InProgress is set, the wait has not ended, and ToNS is the time of
	// the last sample.
	FromNS, ToNS int64
	InProgress   bool
	// LeastNS and MostNS are bounds of the wait's length, in ns. The thread is known not to have run for LeastNS.
	// MostNS is the longest time that samples allow. If the thread may have run in between, one Wait may be several.
	LeastNS, MostNS int64
	// Cut is set if samples did not see its begin or end, so that it can be longer than MostNS.
	Cut bool
	// Uncounted is set if no counters of the thread were ever read, so nothing proves how long the wait was.
	Uncounted bool
	// After is what the thread did before it wanted the GVL. It is Unknown if that was not seen.
	After State
	// Before is the state that ended when the wait began. Its DurationNS is the state's length by samples.
	Before ThreadState
	Slot   int
	// Exact is set if both ends are known to the microsecond, from changes (sampler.Change). A wait in progress has
	// only a beginning. The fields below are zero if Exact is not set.
	Exact bool
	// HandoverNS is the part of the wait from when the thread was chosen until it ran, in ns. Up to Ruby 3.2, which
	// chooses no thread, it is the part since the GVL was last given away. NoCPUNS is the part in which the thread was
	// runnable without a CPU, in ns. The two can overlap.
	HandoverNS, NoCPUNS int64
	// FirstHolder held the GVL when the wait began, or was chosen to get it. LastHolder was the last to hold it before
	// the wait ended. Each is zero if no thread held it, or if no sample listed the holder.
	FirstHolder, LastHolder sampler.ThreadID
	// Stack is the thread's stack at the wait's end (sampler.Change.Stack), and also the stack of Before. If it is
	// zero, Before has the stack that samples saw.
	Stack sampler.StackID
}

// NS returns how long the wait took, or has taken so far, in ns.
func (w *Wait) NS() int64 { return w.ToNS - w.FromNS }

// Open reports whether the wait can be longer than the seen part.
func (w *Wait) Open() bool { return w.InProgress || w.Cut }

// SureNS is how long this is known to be one wait, in ns. Without counters, samples decide.
func (w *Wait) SureNS() int64 {
	if w.Uncounted {
		return w.NS()
	}
	return min(w.LeastNS, w.MostNS)
}

// Told is the wait's length as text shows it.
func (w *Wait) Told() Bounded { return BoundedOf(min(w.LeastNS, w.MostNS), w.MostNS, w.Open()) }

// SetBounds sets the bounds of a wait that ended by byNS, from what samples know of it. seenNS is the time since when
// the samples have no gap.
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
		w.MostNS = max(w.MostNS, w.LeastNS) // the thread did not run in the gap either
	}
}

// Unlisted is the part that threads have in a GVL which no sample has listed. Only changes show them (sampler.Changes).
type Unlisted struct {
	// Holds is set if such a thread holds the GVL. LockInterval.Thread is 0 then.
	Holds bool
	// Waiters are such threads among LockInterval.Waiters.
	Waiters int64
}

// LockInterval is a period in which one thread, or none, held a ractor's GVL, while the number of waiting threads did
// not change. Late answers of the kernel do not change it.
type LockInterval struct {
	Ractor sampler.RactorID
	// Thread, Stack and State are the holder, its stack and how it held the GVL (Running, GC or Stalled). Thread is
	// zero if no thread held it. Stack is zero if it could not be read.
	Thread sampler.ThreadID
	Stack  sampler.StackID
	State  State
	// Turn is the holder's stack in this hold. At first it is the stack with which the holder continued
	// (sampler.Change.Resumes, or its whole Stack after a time slice). Later it is the stack that a sample read. It is
	// zero if it is not known. Stack can come from an earlier hold. It favours the code that holds the GVL for long.
	// Use Stack for sums, and Turn for single events.
	Turn sampler.StackID
	// Serving is the request that the holder worked for, as old as its stack.
	Serving sampler.Serving
	// GCReason is Detail.GCReason of a holder in GC.
	GCReason uint16
	// Stopped is set if a signal or a debugger stopped the holder, or its cgroup is frozen. No code of the process is
	// to blame then.
	Stopped  bool
	Unlisted Unlisted
	// Waiters is how many threads waited.
	Waiters      int64
	FromNS, ToNS int64
}

// NS returns how long the interval is, in ns.
func (i *LockInterval) NS() int64 { return i.ToNS - i.FromNS }

// WaitNS returns the time that threads waited in it, thread·ns.
func (i *LockInterval) WaitNS() int64 { return i.Waiters * i.NS() }

// Blamed reports whether the holder is to blame for the waiting.
func (i *LockInterval) Blamed() bool { return i.Thread != 0 && !i.Stopped }

// GCInterval is a period in which a thread was inside the collector.
type GCInterval struct {
	// Stack is that thread's stack, or a GVL holder's if the collecting thread is not known.
	Stack        sampler.StackID
	Mode         sampler.GCMode
	FromNS, ToNS int64
}

// NS returns how long the interval is, in ns.
func (i *GCInterval) NS() int64 { return i.ToNS - i.FromNS }

// Tick is a sample as a Consumer sees it: with the states of its threads, and the time since the last one.
type Tick struct {
	*sampler.Sample
	// States and Slots are parallel to Threads. The slot of a thread that is listed a second time is -1.
	States []ThreadState
	Slots  []int
	// Begun are the indexes of the threads that were not listed before.
	Begun []int
	// FromNS is the time of the last sample, ToNS this one's, never earlier. Both are the same for the first sample.
	FromNS, ToNS int64
	// MidNS is where the earlier state ends and the later one begins.
	MidNS int64
	// First is set if there was no sample before, Gap if the time since the last one is not known.
	First, Gap bool
	// Exact is set if all changes of the GVL since the last sample are known.
	Exact bool
	// Stopped is set if a thread that holds a GVL is stopped by a signal or a debugger, or frozen by its cgroup.
	Stopped bool
	// Payer is the stack of the GCInterval that begins with the sample. PayerKnown is set if there is one.
	Payer      sampler.StackID
	PayerKnown bool
}

// Consumer receives the results of a Stream. Its arguments are valid only during the call.
type Consumer interface {
	// Interval receives settled time: its state and its stack are final.
	Interval(*Interval)
	// Waited receives a wait that has ended, as soon as the end is seen.
	Waited(*Wait)
	// Lock receives time of a ractor's GVL. The time of one ractor comes in order.
	Lock(*LockInterval)
	// Collecting receives time of the collector.
	Collecting(*GCInterval)
	// Ended reports that the thread of a slot has not been listed since atNS. All its intervals were delivered before.
	Ended(slot int, atNS int64)
	// Tick receives a sample, after the intervals that it settles.
	Tick(*Tick)
}

// Ignore is a Consumer that ignores everything. A consumer embeds it to implement only some methods.
type Ignore struct{}

func (Ignore) Interval(*Interval)     {}
func (Ignore) Waited(*Wait)           {}
func (Ignore) Lock(*LockInterval)     {}
func (Ignore) Collecting(*GCInterval) {}
func (Ignore) Ended(int, int64)       {}
func (Ignore) Tick(*Tick)             {}

// Quality returns the contribution of the time since the last sample to the quality of figures.
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

// looked reports whether the sample read the stack of a thread without the GVL. A LockTick reads only the stacks of
// holders, and of threads that have begun something.
func (k *Tick) looked() bool {
	for i := range k.Threads {
		if k.Threads[i].Quality&sampler.StackFresh != 0 && !k.States[i].State.Held() {
			return true
		}
	}
	return false
}

// MaxTimeNS bounds the times of samples: 73 years. A damaged recording can hold any time.
const MaxTimeNS = 1 << 61

// TimeOf is a sample's time within bounds.
func TimeOf(s *sampler.Sample) int64 { return min(max(s.TimeNS, 0), MaxTimeNS) }

// Ratio returns a divided by b, and zero if b is not positive.
func Ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// TopKey returns the key with the largest value. Of equal ones it returns the smallest.
func TopKey[K cmp.Ordered](m map[K]int64) (key K, value int64) {
	for k, v := range m {
		if v > value || v == value && k < key {
			key, value = k, v
		}
	}
	return key, value
}

// TimeSliceNS is the time after which Ruby code lets other threads run, in ns (the default of RUBY_THREAD_TIMESLICE,
// 100 ms; thread.c).
const TimeSliceNS = 100e6
