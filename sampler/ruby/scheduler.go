package ruby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/ownword"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// ErrNoScheduler means that ddtop cannot follow the scheduler of this Ruby's main ractor exactly. For example, its
// layout in memory is not known, or the process has several ractors.
var ErrNoScheduler = errors.New("this Ruby's scheduler can't be followed exactly")

// mutexSize is the number of bytes that isMutex examines. A pthread_mutex_t of glibc or musl is not larger, except on
// aarch64. There, glibc's has 8 more bytes without a meaning (struct_mutex.h, pthreadtypes-arch.h).
const mutexSize = 40

// Scheduler has the addresses and offsets with which exact mode reads the scheduler of the main ractor.
type Scheduler struct {
	// Before33 is true if the scheduler is from Ruby 2.6 to 3.2. These releases do not store which thread will get the
	// GVL next (docs/reference/exact.md).
	Before33 bool
	// Lock is the address of the scheduler's mutex. Owner is the address of the scheduler's pointer to the thread that
	// owns the GVL. QueueTail is the address of the scheduler's pointer to the last thread in the queue.
	Lock, Owner, QueueTail attach.Address
	// ReadyNode and RunningNode are the offsets, in an rb_thread_t, of the thread's nodes in the queue and in the list
	// of running threads, in bytes. Up to 3.2 there is no such list, and RunningNode is -1.
	ReadyNode, RunningNode int
	// ExecutionContext is an offset in bytes from a native thread's thread pointer register. At this offset, the native
	// thread has a pointer to its Ruby thread's execution context. ThreadOfEC is the offset in the context of the
	// pointer to the rb_thread_t. ThreadOfEC is -1 if the word at ExecutionContext points to the rb_thread_t itself
	// (2.6 and 2.7).
	ExecutionContext int64
	ThreadOfEC       int
	// Region, Unblock, Status and Context are offsets of fields in an rb_thread_t. Region shows whether the thread runs
	// code without the GVL, and which code. Unblock is the function that wakes the thread up. Status is the thread's
	// status, and Context its execution context.
	Region, Unblock, Context int
	Status                   layout.Field
	// Mutex is the offset in an rb_thread_t of the Mutex that the thread wants to lock. Collector is the address of
	// the word with the collector's flags, or zero if that address is not known. Collects is the flag in this word
	// that is set while the collector works.
	Mutex     int
	Collector attach.Address
	Collects  layout.Field
}

// SchedulerThread is the state of one of the main ractor's threads at an instant.
type SchedulerThread struct {
	Addr attach.Address
	TID  int32
	// Owner is true if the scheduler's pointer says that the thread owns the GVL. Queued is true if the thread was in
	// the queue. Linked is true if it was in the list of running threads. Up to 3.2 Linked equals Owner, because there
	// is no such list. Up to 3.2 Queued is also true for a thread that gave the GVL away after its time slice and is
	// about to queue.
	Owner, Queued, Linked bool
}

// scheduling finds the words in memory that exact mode reads to follow the main ractor's scheduler.
type scheduling struct {
	*target
	list *threadList
}

// Scheduler finds the main ractor's scheduler. Only the goroutine that calls Read may call it, after a Read. The error
// is ErrNoScheduler if the scheduler cannot be followed, or an error of reading.
func (r *scheduling) Scheduler() (Scheduler, error) { return r.scheduler(true) }

// UnprobedScheduler does the same as Scheduler, for callers that put no breakpoints into the process. So it also
// accepts the releases for which breakpoints are dangerous (forgetsMutex).
func (r *scheduling) UnprobedScheduler() (Scheduler, error) { return r.scheduler(false) }

func (r *scheduling) scheduler(breakpoints bool) (Scheduler, error) {
	none := func(format string, args ...any) (Scheduler, error) {
		return Scheduler{}, fmt.Errorf("process %d: %w: %s", r.pid, ErrNoScheduler, fmt.Sprintf(format, args...))
	}
	o := r.o
	if r.era == sampler.EraFlag {
		return none("it is of Ruby %s, and is known from 2.6 on", r.vm.Version)
	}
	if breakpoints && forgetsMutex(r.vm.Release) {
		return none("children that Ruby %s forks can wait for ever for a mutex that nobody holds (https://bugs.ruby-lang.org/issues/21860), which breakpoints "+
			"make likely; 3.4.9 has it mended", r.vm.Version)
	}
	if o.GVLLock < 0 || o.ThReadyNode < 0 || r.era == sampler.EraSched && (o.ThRunningNode < 0 || o.NTTID < 0) {
		return none("where this build of Ruby %s has its parts is not known", r.vm.Version)
	}
	if len(r.list.ractors) == 0 {
		return none("its threads have not been read yet")
	}
	if len(r.list.ractors) > 1 {
		return none("the process has %d ractors, and the threads of one alone can be followed", len(r.list.ractors))
	}
	rc := r.list.ractors[0]
	at := func(off int) attach.Address { return rc.base + attach.Address(r.gvlOff(off)) }
	s := Scheduler{
		Before33: r.era == sampler.EraOwner,
		Lock:     at(o.GVLLock), Owner: at(o.GVLOwner), QueueTail: at(o.GVLQueue) + 8,
		ReadyNode: o.ThReadyNode, RunningNode: o.ThRunningNode, ThreadOfEC: o.ECThread,
		Region: o.ThRegion, Unblock: o.ThUnblockFunc, Status: o.ThStatus, Context: o.ThEC, Mutex: o.ThLockingMutex,
	}
	if r.gc != nil {
		s.Collector, s.Collects = r.gc.Collects()
	}
	var mutex [mutexSize]byte
	if err := r.mem.Read(s.Lock, mutex[:]); err != nil {
		return Scheduler{}, fmt.Errorf("process %d: reading the mutex of its scheduler: %w", r.pid, err)
	}
	if !isMutex(&mutex) {
		return none("at %v, where its mutex is in the layout of Ruby %s, is none (% x)", s.Lock, r.vm.Version, mutex)
	}
	// Before 3.0 no thread-local variable leads to the Ruby thread. Ruby stores the pointer to it with
	// pthread_setspecific(3). So the pointer is in the memory that describes the native thread.
	specific := o.VMRactorSet < 0
	threads, ok := r.nativeWords(rc.threads, specific)
	if !ok {
		return none("its threads share native threads (M:N, RUBY_MN_THREADS)")
	}
	if specific {
		s.ThreadOfEC = -1
	}
	var looked int
	if s.ExecutionContext, looked, ok = ownword.Find(r.mem, r.vm.Table.Machine, threads, specific); !ok {
		return none("where its threads have their execution contexts can't be told (of %d threads looked at)", looked)
	}
	return s, nil
}

// nativeWords returns, for each native thread, the word to search for in the native thread's own memory. It is the
// address of the thread's execution context or, if specific is true, of its rb_thread_t. Threads that have not begun or
// cannot be read are left out. ok is false if a thread has a tid but no known pthread_t.
func (r *scheduling) nativeWords(threads []*thread, specific bool) (words []ownword.Word, ok bool) {
	for _, t := range threads[:min(len(threads), ownword.MaxThreads)] {
		native := r.native(t)
		if native.At == 0 && native.Pointer == 0 {
			if t.tid == 0 {
				continue // skip a thread whose native thread has not begun
			}
			return nil, false
		}
		own := ownword.Word{Thread: native.Pointer, Word: le64(t.buf[r.o.ThEC:]), Main: int(t.tid) == r.pid}
		if native.At != 0 {
			own.Thread = r.addressAt(native.At)
		}
		if specific {
			own.Word = uint64(t.addr)
		}
		if own.Thread != 0 && own.Word != 0 {
			words = append(words, own)
		}
	}
	return words, true
}

// isMutex reports whether bytes can be an ordinary pthread_mutex_t. In glibc it has the lock, a count, the holder's
// tid, the number of users, the kind, and an empty list. In musl it has the kind, the lock, its waiters, and zeros.
func isMutex(b *[mutexSize]byte) bool {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	for _, x := range b[24:] {
		if x != 0 {
			return false
		}
	}
	const (
		maxTID       = 1 << 22 // PID_MAX_LIMIT, include/linux/threads.h
		elision      = 0x300   // old glibc sets these bits: PTHREAD_MUTEX_ELISION_NP or PTHREAD_MUTEX_NO_ELISION_NP
		busy, waited = 16, 1 << 31
	)
	glibc := word(0) <= 2 && word(1) == 0 && word(2) < maxTID && word(4)&^elision == 0
	musl := word(0) == 0 && (word(1)&^waited == 0 || word(1)&^waited == busy) && word(4) == 0 && word(5) == 0
	return glibc || musl
}

// SchedulerThreads reads the present states of the main ractor's threads. Only the goroutine that calls Read may call
// it, after a Read. Threads that have no native thread or cannot be read are left out.
func (r *scheduling) SchedulerThreads(s *Scheduler) ([]SchedulerThread, error) {
	if len(r.list.ractors) == 0 {
		return nil, nil
	}
	threads := r.list.ractors[0].threads
	words := make([]byte, r.o.ThSpan*len(threads)+8)
	ranges := make([]attach.Range, 0, len(threads)+1)
	for i, t := range threads {
		ranges = append(ranges, attach.Range{Addr: t.addr, Buf: words[i*r.o.ThSpan:][:r.o.ThSpan]})
	}
	owned := words[len(words)-8:]
	ranges = append(ranges, attach.Range{Addr: s.Owner, Buf: owned})
	if _, err := r.mem.ReadBatch(ranges); err != nil {
		return nil, fmt.Errorf("reading the threads of process %d: %w", r.pid, err)
	}
	owner := attach.Address(le64(owned))
	out := make([]SchedulerThread, 0, len(threads))
	for i, t := range threads {
		if t.tid == 0 || ranges[i].Failed {
			continue
		}
		is := s.Of(ranges[i].Buf, t.addr, t.tid, owner)
		out = append(out, is)
	}
	return out, nil
}

// Span returns the offsets of the beginning and the end of the bytes of an rb_thread_t that the method Of needs.
func (s *Scheduler) Span() (from, to int) {
	const word = 8
	ends := []int{s.ReadyNode + 2*word, s.Region + word, s.Unblock + word, s.Status.Offset + word}
	from = min(s.ReadyNode, s.Region, s.Unblock, s.Status.Offset)
	if s.RunningNode >= 0 {
		from, ends = min(from, s.RunningNode), append(ends, s.RunningNode+2*word)
	}
	return from, slices.Max(ends)
}

// Of returns a thread's state at the instant at which b was read. b has the bytes of the thread's rb_thread_t, at least
// from the beginning up to the end of Span. owner is the address of the thread that owns the GVL.
func (s *Scheduler) Of(b []byte, addr attach.Address, tid int32, owner attach.Address) SchedulerThread {
	in := func(node int) bool {
		next := attach.Address(le64(b[node:]))
		return next != 0 && next != addr+attach.Address(node)
	}
	is := SchedulerThread{Addr: addr, TID: tid, Owner: owner == addr}
	if !s.Before33 {
		is.Queued, is.Linked = in(s.ReadyNode), in(s.RunningNode)
		return is
	}
	// Up to 3.2 the node can also be in the list of threads to be woken. In this case Unblock is set. A runnable thread
	// that is in neither list, and not in code without the GVL, is about to queue again
	// (docs/internals/threads.md#the-gvl-and-its-queue).
	waits := sampler.Status(s.Status.In(b)) == sampler.Runnable && le64(b[s.Region:]) == 0
	is.Linked, is.Queued = is.Owner, !is.Owner && (in(s.ReadyNode) && le64(b[s.Unblock:]) == 0 || waits)
	return is
}

// Listed calls the function each for every thread that the last Read found, if the list of threads has changed since
// the caller's last call. It returns the number of the current list, which is never 0. known is the number that the
// caller got from its last call. n is the number of threads. tid is 0 while a thread has no native thread. Only the
// goroutine that calls Read may call Listed.
func (r *scheduling) Listed(known uint64, each func(n int, addr attach.Address, id sampler.ThreadID, tid int32)) uint64 {
	if n := uint64(r.list.walks); n == known {
		return n
	}
	for _, t := range r.list.order {
		each(len(r.list.order), t.addr, t.id, t.tid)
	}
	return uint64(r.list.walks)
}

// forgetsMutex reports whether a release does not unlock mutexes in a forked child (Ruby's Bug 21860: 3.4.0 to 3.4.8).
// If another thread held a mutex at the fork, the child waits for this mutex forever. Breakpoints make this likely: a
// thread that is at a breakpoint during the fork often holds a mutex. In a test, 18 of 183 forks hung.
func forgetsMutex(r places.Release) bool { return r.Major == 3 && r.Minor == 4 && r.Patch < 9 }
