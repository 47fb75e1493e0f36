package sampler

import (
	"sync"
	"sync/atomic"
)

const (
	// nativeWantedNS is how long a thread's native stack is wanted after the last time a consumer asked for it, in ns.
	nativeWantedNS = 10_000_000_000
	// MaxNativeStays bounds the threads whose native stacks are wanted at the same time.
	MaxNativeStays = 1024
)

// NativeStay is the native stack of a thread that stays at one place.
type NativeStay struct {
	NativeStack
	// Stack and Turns identify the stay: the thread's Ruby stack, and how often it had got a CPU (Kernel.Turns).
	Stack StackID
	Turns int64
	// SinceNS is when the thread was first seen in the stay, and AtNS when the stack was read, CLOCK_MONOTONIC in ns.
	SinceNS, AtNS int64
}

// NativeCounts counts the readings of native stacks since the attach.
type NativeCounts struct {
	// Read counts the stacks that were kept. Cut counts the kept stacks that lack their outer frames. Moved counts the
	// readings during which the thread ran. Refused counts the stacks that do not fit Ruby's frames.
	Read, Cut, Moved, Refused uint64
}

// NativeWatch has the native stacks of threads that stay at one place for a second or more. A consumer of samples asks
// for the threads that it wants, and finds their stacks with later samples. Any goroutine may use it. A nil
// NativeWatch has no stacks.
type NativeWatch struct {
	mu     sync.Mutex
	wanted map[ThreadID]int64 // until when, CLOCK_MONOTONIC in ns
	// all is the time until which the stacks of all threads are wanted. changes counts the calls of Keep that changed
	// what is known.
	all     int64
	changes atomic.Uint64
	stays   map[ThreadID]NativeStay
	counts  NativeCounts
	failed  string
	// running and runningFailed are what Running returns.
	running       RunningCounts
	runningFailed string
	// alone are stacks of running threads that Ruby does not know, by TID.
	alone map[int32]*AloneRuns
}

// Want asks for the native stack of a thread for the next ten seconds. nowNS is the time of a sample.
func (w *NativeWatch) Want(id ThreadID, nowNS int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted == nil {
		w.wanted = make(map[ThreadID]int64)
	}
	if _, has := w.wanted[id]; has || len(w.wanted) < MaxNativeStays {
		w.wanted[id] = nowNS + nativeWantedNS
	}
}

// WantAll asks for the native stacks of all threads for the next ten seconds.
func (w *NativeWatch) WantAll(nowNS int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = nowNS + nativeWantedNS
}

// WantsAll reports whether all threads are wanted at a time.
func (w *NativeWatch) WantsAll(nowNS int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nowNS <= w.all
}

// Changes returns how often the stacks that Stays passes have changed.
func (w *NativeWatch) Changes() uint64 { return w.changes.Load() }

// Stays calls fn with each thread whose stack is known, and the stack.
func (w *NativeWatch) Stays(fn func(ThreadID, *NativeStay)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, stay := range w.stays {
		fn(id, &stay)
	}
}

// AppendWanted appends the threads that are wanted at a time, in no order.
func (w *NativeWatch) AppendWanted(ids []ThreadID, nowNS int64) []ThreadID {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, until := range w.wanted {
		if until < nowNS {
			delete(w.wanted, id)
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// Keep stores the stack of a thread. A nil stay means that the thread has moved.
func (w *NativeWatch) Keep(id ThreadID, stay *NativeStay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, has := w.stays[id]; has || stay != nil {
		w.changes.Add(1)
	}
	if stay == nil {
		delete(w.stays, id)
		return
	}
	if w.stays == nil {
		w.stays = make(map[ThreadID]NativeStay)
	}
	w.stays[id] = *stay
}

// Count sets what Counts returns. failed says why no stack can be read. It is empty if stacks can be read.
func (w *NativeWatch) Count(c NativeCounts, failed string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.failed = c, failed
}

// Counts returns how often stacks were read and refused. failed says why none can be read.
func (w *NativeWatch) Counts() (c NativeCounts, failed string) {
	if w == nil {
		return c, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts, w.failed
}

// Of returns the native stack of a thread of a sample. ok is false if it is not known, or belongs to an earlier stay.
func (w *NativeWatch) Of(t *Thread) (stay NativeStay, ok bool) {
	if w == nil {
		return stay, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	stay, ok = w.stays[t.ID]
	if !ok || stay.Stack != t.Stack || stay.Turns != t.Kernel.Turns {
		return NativeStay{}, false
	}
	return stay, true
}

// NativeStay returns the native stack of a thread that stays at one place. ok is false if it is not known.
func (s *Sample) NativeStay(id ThreadID) (stay NativeStay, ok bool) {
	if s == nil || s.Native == nil {
		return stay, false
	}
	for i := range s.Threads {
		if s.Threads[i].ID == id {
			return s.Native.Of(&s.Threads[i])
		}
	}
	return stay, false
}
