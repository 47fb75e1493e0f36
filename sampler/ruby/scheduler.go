package ruby

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// ErrNoScheduler: the main ractor's scheduler is of a kind that can't be followed from record to record.
var ErrNoScheduler = errors.New("this Ruby's scheduler can't be followed exactly")

const (
	// schedulerLock is how far before its pointer to the owner a scheduler has its mutex, in bytes: it is the first member of struct
	// rb_thread_sched, the pointer the second (thread_pthread.h, 3.3 to 4.0), and a pthread_mutex_t has 40 bytes on x86_64, with glibc
	// and with musl.
	schedulerLock = 40
	// belowPointer and abovePointer bound where the pointer to a thread's execution context is looked for in its thread-local
	// storage, in bytes below and above its thread pointer (docs/internals/context.md#thread-local-variables).
	belowPointer, abovePointer = 4096, 0x600
	// pointerToSelf is where glibc's and musl's thread block, at the thread pointer, has its own address (tcbhead_t.self: 16; musl's
	// struct pthread: 0).
	selfOfGlibc, selfOfMusl = 16, 0
	// maxLearned bounds the threads whose storage is looked at.
	maxLearned = 64
)

// Scheduler says where the parts of the main ractor's scheduler are in the process's memory.
type Scheduler struct {
	// Lock is its mutex, Owner its pointer to the thread that owns the GVL, QueueTail the pointer to the last in the queue.
	Lock, Owner, QueueTail attach.Address
	// ReadyNode and RunningNode are where an rb_thread_t has its nodes in the queue and in the list of running threads, ThreadOfEC
	// where an execution context has the pointer to it, in bytes.
	ReadyNode, RunningNode, ThreadOfEC int
	// ExecutionContext is how far from its thread pointer a native thread has the pointer to its execution context, in bytes.
	ExecutionContext int64
}

// SchedulerThread is a thread of the main ractor, as it was at an instant.
type SchedulerThread struct {
	Addr attach.Address
	TID  int32
	// Owner: the scheduler named it as the GVL's owner. Queued, Linked: it was in the queue, in the list of running threads.
	Owner, Queued, Linked bool
}

// Scheduler finds the main ractor's scheduler. It is called after a Read, by the goroutine that reads. The error is ErrNoScheduler where
// it can't be followed, or that of reading.
func (r *Reader) Scheduler() (Scheduler, error) {
	none := func(format string, args ...any) (Scheduler, error) {
		return Scheduler{}, fmt.Errorf("process %d: %w: %s", r.pid, ErrNoScheduler, fmt.Sprintf(format, args...))
	}
	o := r.o
	if r.era != sampler.EraSched || o.thReadyNode < 0 || o.thRunningNode < 0 || o.ntTID < 0 {
		return none("it is of Ruby %s, and known as yet from 3.3 on", r.vm.Version)
	}
	if len(r.ractors) == 0 {
		return none("its threads have not been read yet")
	}
	if len(r.ractors) > 1 {
		return none("the process has %d ractors, and the threads of one alone can be followed", len(r.ractors))
	}
	rc := r.ractors[0]
	owner := rc.addr + attach.Address(o.gvlOwner)
	s := Scheduler{
		Lock: owner - schedulerLock, Owner: owner, QueueTail: rc.addr + attach.Address(o.gvlQueue) + 8,
		ReadyNode: o.thReadyNode, RunningNode: o.thRunningNode, ThreadOfEC: o.ecThread,
	}
	votes, looked := make(map[int64]int), 0
	for _, t := range rc.threads[:min(len(rc.threads), maxLearned)] {
		native := r.native(t)
		if native.At == 0 {
			if t.tid == 0 {
				continue // it has not begun
			}
			return none("its threads share native threads (M:N, RUBY_MN_THREADS)")
		}
		if r.voteForContext(t, native.At, votes) {
			looked++
		}
	}
	best := 0
	for at, n := range votes {
		// The one nearest to the thread pointer, of several: a copy of it is in the stack of whoever began the thread.
		if n > best || n == best && at > s.ExecutionContext {
			best, s.ExecutionContext = n, at
		}
	}
	if best == 0 || 2*best < looked {
		return none("where its threads have their execution contexts can't be told (of %d threads looked at)", looked)
	}
	return s, nil
}

// voteForContext adds to votes where, from its thread pointer, a native thread's storage has the thread's execution context. native is
// where the pointer is, which is the pthread_t. It reports whether it could be looked at.
func (r *Reader) voteForContext(t *thread, native attach.Address, votes map[int64]int) bool {
	var b [8]byte
	if r.mem.Read(native, b[:]) != nil {
		return false
	}
	pointer := attach.Address(le64(b[:]))
	if r.mem.Read(pointer+selfOfGlibc, b[:]) != nil || le64(b[:]) != uint64(pointer) {
		if r.mem.Read(pointer+selfOfMusl, b[:]) != nil || le64(b[:]) != uint64(pointer) {
			return false
		}
	}
	ec := le64(t.buf[r.o.thEC:])
	if ec == 0 {
		return false
	}
	var storage [belowPointer + abovePointer]byte
	from := 0
	if r.mem.Read(pointer-belowPointer, storage[:]) != nil {
		// What is above the block may not be mapped, nor what is far below.
		for from = belowPointer; from >= 512; from -= 512 {
			if r.mem.Read(pointer-attach.Address(from), storage[belowPointer-from:belowPointer]) == nil {
				break
			}
		}
		from = belowPointer - from
	}
	found := false
	for at := from &^ 7; at+8 <= len(storage); at += 8 {
		if binary.LittleEndian.Uint64(storage[at:]) == ec {
			votes[int64(at)-belowPointer]++
			found = true
		}
	}
	return found
}

// SchedulerThreads reads the main ractor's threads as they are now. It is called after a Read, by the goroutine that reads. Threads that
// have no native thread, or can't be read, are left out.
func (r *Reader) SchedulerThreads(s *Scheduler) ([]SchedulerThread, error) {
	if len(r.ractors) == 0 {
		return nil, nil
	}
	threads := r.ractors[0].threads
	words := make([][8]byte, 2*len(threads)+1)
	ranges := make([]attach.Range, 0, len(words))
	for i, t := range threads {
		ranges = append(ranges, attach.Range{Addr: t.addr + attach.Address(s.ReadyNode), Buf: words[2*i][:]},
			attach.Range{Addr: t.addr + attach.Address(s.RunningNode), Buf: words[2*i+1][:]})
	}
	ranges = append(ranges, attach.Range{Addr: s.Owner, Buf: words[2*len(threads)][:]})
	if _, err := r.mem.ReadBatch(ranges); err != nil {
		return nil, fmt.Errorf("reading the threads of process %d: %w", r.pid, err)
	}
	owner := attach.Address(le64(words[2*len(threads)][:]))
	out := make([]SchedulerThread, 0, len(threads))
	for i, t := range threads {
		if t.tid == 0 || ranges[2*i].Failed || ranges[2*i+1].Failed {
			continue
		}
		in := func(i, node int) bool {
			next := attach.Address(le64(words[i][:]))
			return next != 0 && next != t.addr+attach.Address(node)
		}
		out = append(out, SchedulerThread{Addr: t.addr, TID: t.tid, Owner: owner == t.addr, Queued: in(2*i, s.ReadyNode), Linked: in(2*i+1, s.RunningNode)})
	}
	return out, nil
}
