package sampler

import (
	"sync"
	"sync/atomic"
)

const (
	// nativeWantedNS is how long one request for a thread's native stack is valid, in ns. After this time ddtop stops
	// reading the stack, unless a consumer of samples requests it again.
	nativeWantedNS = 10_000_000_000
	// MaxNativeStays limits the number of threads whose native stacks consumers of samples can request at the same
	// time.
	MaxNativeStays = 1024
)

// NativeStay is the native stack of a thread that has stayed at one place for a while (see NativeWatch).
type NativeStay struct {
	NativeStack
	// Stack and Turns identify one stay of a thread at one place. Stack is the thread's Ruby stack. Turns is how often
	// the thread had got a CPU (Kernel.Turns). If either changes, the thread has run, and a new stay begins.
	Stack StackID
	Turns int64
	// SinceNS is when the thread was first seen at this place. AtNS is when its stack was read. Both are
	// CLOCK_MONOTONIC in ns.
	SinceNS, AtNS int64
}

// NativeCounts counts the readings of native stacks since ddtop attached to the process.
type NativeCounts struct {
	// Read counts the stacks that were kept. Cut counts the kept stacks whose outer frames are missing. Moved counts
	// the readings that were dropped because the thread ran during the reading. Refused counts the stacks that do not
	// fit Ruby's frames.
	Read, Cut, Moved, Refused uint64
}

// NativeWatch holds the native stacks of threads that stay at one place for a second or more. A consumer of samples
// requests the stacks of certain threads with Want, and finds them here a few samples later. Any goroutine may use a
// NativeWatch. A nil NativeWatch has no stacks.
type NativeWatch struct {
	mu     sync.Mutex
	wanted map[ThreadID]int64 // for each thread, until when its stack is wanted, CLOCK_MONOTONIC in ns
	// all is the time until which consumers want the stacks of all threads. changes counts how often Keep stored or
	// removed a stack.
	all     int64
	changes atomic.Uint64
	stays   map[ThreadID]NativeStay
	counts  NativeCounts
	failed  string
	// running and runningFailed are the values that the method Running returns.
	running       RunningCounts
	runningFailed string
	// alone has the stacks of running threads that Ruby does not know. The key is the TID.
	alone map[int32]*AloneRuns
}

// Want requests the native stack of a thread for the ten seconds after nowNS. nowNS is the time of a sample.
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

// WantAll requests the native stacks of all threads for the ten seconds after nowNS.
func (w *NativeWatch) WantAll(nowNS int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = nowNS + nativeWantedNS
}

// WantsAll reports whether a consumer wants the stacks of all threads at the time nowNS.
func (w *NativeWatch) WantsAll(nowNS int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nowNS <= w.all
}

// Changes returns a count that grows whenever the stored stacks change. If it is unchanged, a caller need not call
// Stays again.
func (w *NativeWatch) Changes() uint64 { return w.changes.Load() }

// Stays calls fn for each thread whose native stack is known, with the thread and the stack.
func (w *NativeWatch) Stays(fn func(ThreadID, *NativeStay)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, stay := range w.stays {
		fn(id, &stay)
	}
}

// AppendWanted appends the threads whose stacks consumers want at the time nowNS, in any order.
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

// Keep stores the native stack of a thread. A nil stay means that the thread has moved on. Keep then removes the stored
// stack.
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

// Count sets the values that Counts returns. failed says why no native stack can be read. It is empty if stacks can be
// read.
func (w *NativeWatch) Count(c NativeCounts, failed string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts, w.failed = c, failed
}

// Counts returns how often native stacks were read and refused. failed says why none can be read.
func (w *NativeWatch) Counts() (c NativeCounts, failed string) {
	if w == nil {
		return c, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts, w.failed
}

// Of returns the stored native stack of a thread in a sample. ok is false if there is none, or if the thread has run
// since the stack was read.
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

// NativeStay returns the native stack of a thread that has not run for a while. ok is false if the stack is not known.
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
