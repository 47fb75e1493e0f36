package tracer

import (
	"encoding/binary"
	"fmt"

	"github.com/ddtop/ddtop/sampler/switches"
)

// Target is a process to follow, with the addresses and offsets at which the programs in the kernel read its memory.
type Target struct {
	// PID is the process's number. It must be the same in ddtop's PID namespace and in the machine's initial PID
	// namespace.
	PID int
	// Before33 is true up to Ruby 3.2.
	Before33 bool
	// Owner is the address of the scheduler's pointer to the thread that owns the GVL. QueueTail is the address of the
	// scheduler's pointer to the last thread in the queue.
	Owner, QueueTail uint64
	// ExecutionContext is an offset in bytes from a native thread's thread pointer. At this offset, the native thread
	// has a pointer to its Ruby thread's execution context. In the execution context, the pointer to the rb_thread_t is
	// at the offset ThreadOfEC. ThreadOfEC is -1 if the word at ExecutionContext points to the rb_thread_t itself.
	ExecutionContext int64
	ThreadOfEC       int
	// These are offsets of fields in an rb_thread_t, in bytes. ReadyNode is the thread's node in the queue. RunningNode
	// is its node in the list of running threads, or -1 if Ruby has no such list. Region shows whether the thread is in
	// code that runs without the GVL. Unblock is the function that unblocks the thread. Status is its status, and
	// ContextOfThread its execution context.
	ReadyNode, RunningNode, Region, Unblock, Status, ContextOfThread int
	// Mutex is the offset in an rb_thread_t of the Mutex that the thread wants to lock, in bytes. Collector is the
	// address of the word with the collector's flags, or 0 if unknown. CollectsShift and CollectsBits say which of
	// these flags are set while the collector works.
	Mutex                       int
	Collector                   uint64
	CollectsShift, CollectsBits uint
	// StatusShift and StatusBits say which bits of a word are the thread's status.
	StatusShift, StatusBits uint
	// Stacks is true if the programs copy Ruby stacks. They copy the stacks of threads that have the GVL at a tick of
	// the clock, and of some threads that wait for it.
	Stacks bool
}

// These are offsets in a value of the map of targets. First come these words, and then the programs' counters for the
// process.
const (
	targetOwner = 8 * iota
	targetTail
	targetContext
	targetThreadOfEC
	targetReady
	targetRunning
	targetRegion
	targetUnblock
	targetStatus
	targetMutex
	targetCollector
	targetContextOfThread
	targetBefore33
	// targetSeenTail is the thread that was the last one in the queue when the previous record was made.
	targetSeenTail
	targetStacks
	// targetSpanNS is when the present period of spanNS began, in ns. targetInSpan counts the stacks of waiting threads
	// that were copied in this period.
	targetSpanNS
	targetInSpan
	// targetClockNS is when a stack was last copied at a tick of the clock, in ns.
	targetClockNS
	targetRecords
	targetLost
	targetFailed
	targetBusyNS
	targetSize
)

func (t *Target) encode() []byte {
	b := make([]byte, targetSize)
	put := func(place int, v int64) { binary.LittleEndian.PutUint64(b[place:], uint64(v)) }
	put(targetOwner, int64(t.Owner))
	put(targetTail, int64(t.QueueTail))
	put(targetContext, t.ExecutionContext)
	put(targetThreadOfEC, int64(t.ThreadOfEC))
	put(targetReady, int64(t.ReadyNode))
	put(targetRunning, int64(t.RunningNode))
	put(targetRegion, int64(t.Region))
	put(targetUnblock, int64(t.Unblock))
	put(targetStatus, int64(t.Status))
	put(targetMutex, int64(t.Mutex))
	put(targetCollector, int64(t.Collector))
	put(targetContextOfThread, int64(t.ContextOfThread))
	if t.Stacks {
		put(targetStacks, 1)
	}
	if t.Before33 {
		put(targetBefore33, 1)
		put(targetRunning, -1)
	}
	return b
}

// These are offsets of the words of a record in the ring.
const (
	recordNS = 8 * iota
	recordTID
	recordTGID
	recordIn
	recordWoken
	recordWaker
	recordWakerOwner
	recordGave
	recordThread
	recordOwner
	recordTail
	recordReady
	recordRunning
	recordRegion
	recordUnblock
	recordStatus
	recordMutex
	recordCollector
	recordState
	recordSyscall
	recordArgs
	_
	_
	recordPolled
	recordDelay
	recordCFP
	recordPC
	recordSP
	// recordWork is the address of the environment (the Hash) of the request that the thread serves, or 0.
	recordWork
	// recordQueue has the nodes of the threads that have joined the queue for the GVL since the previous record. The
	// thread that joined last comes first.
	recordQueue
	_
	_
	_
	_
	_
	recordSize

	recordKind   = recordTID + 4
	recordFailed = recordTGID + 4
)

// maxJoined limits the threads in recordQueue.
const maxJoined = (recordSize - recordQueue) / 8

// asleepBits are the two bits of a task's state that mean that the task sleeps: TASK_INTERRUPTIBLE and
// TASK_UNINTERRUPTIBLE (include/linux/sched.h). Other bits can be set too, for example TASK_FREEZABLE in waits for a
// futex.
const asleepBits = 1 | 2

// decode fills r from the bytes that a program has put into the ring.
func (t *Target) decode(b []byte, r *switches.Record) error {
	if len(b) < recordSize {
		return fmt.Errorf("a record of %d bytes, not %d", len(b), recordSize)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	*r = switches.Record{
		Kind: switches.Kind(b[recordKind]), NS: int64(at(recordNS)), InNS: int64(at(recordIn)), WokenNS: int64(at(recordWoken)),
		TID: int32(binary.LittleEndian.Uint32(b[recordTID:])), Waker: int32(at(recordWaker)), WakerOwner: at(recordWakerOwner),
		GaveNS: int64(at(recordGave)), Thread: at(recordThread), Owner: at(recordOwner), Before33: t.Before33,
		Asleep: at(recordState)&asleepBits != 0, Syscall: int64(at(recordSyscall)),
		Args:    [3]uint64{at(recordArgs), at(recordArgs + 8), at(recordArgs + 16)},
		DelayNS: int64(at(recordDelay)), CFP: at(recordCFP), PC: at(recordPC), SP: at(recordSP),
		Failed: int(binary.LittleEndian.Uint32(b[recordFailed:])), Region: at(recordRegion) != 0,
		Mutex:    at(recordMutex),
		Serves:   at(recordWork),
		FD:       int32(at(recordPolled)),
		Collects: at(recordCollector)>>t.CollectsShift&(1<<t.CollectsBits-1) != 0,
	}
	r.SetStatus(at(recordStatus) >> t.StatusShift & (1<<t.StatusBits - 1))
	if r.Syscall < 0 {
		r.Syscall = -1
	}
	if r.Thread == 0 {
		return nil
	}
	r.Queued = linked(at(recordReady), r.Thread+uint64(t.ReadyNode))
	if t.Before33 {
		r.Queued = r.Queued && at(recordUnblock) == 0 // otherwise the node is in the list of threads to be unblocked
		return nil
	}
	r.Linked = linked(at(recordRunning), r.Thread+uint64(t.RunningNode))
	if tail := at(recordTail); tail != 0 && tail != t.QueueTail-8 {
		r.Last = tail - uint64(t.ReadyNode)
	}
	for i := range r.Joined {
		if node := at(recordQueue + 8*i); node != 0 {
			r.Joined[i] = node - uint64(t.ReadyNode)
		}
	}
	return nil
}

// linked reports whether a node is in a list. The parameter next is the pointer in the node. A node that is in no list
// points to itself or is zero.
func linked(next, node uint64) bool { return next != 0 && next != node }
