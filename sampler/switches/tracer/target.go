package tracer

import (
	"encoding/binary"
	"fmt"

	"github.com/ddtop/ddtop/sampler/switches"
)

// Target is a process with the places of the data that the programs read.
type Target struct {
	// PID is the process's number, which must be the same for ddtop and for the kernel.
	PID int
	// Before33: it is of Ruby up to 3.2.
	Before33 bool
	// Owner is the address of the pointer to the GVL's owner, QueueTail of the pointer to the last in the queue.
	Owner, QueueTail uint64
	// ExecutionContext is the distance from a native thread's thread pointer to the pointer to its execution context,
	// in bytes. ThreadOfEC is the offset in it of the pointer to the rb_thread_t. It is -1 if the rb_thread_t itself
	// is at ExecutionContext.
	ExecutionContext int64
	ThreadOfEC       int
	// Offsets in an rb_thread_t, in bytes. They are of its nodes in the queue and in the list of running threads, and
	// its region without the GVL. They are also of the function that unblocks it, its status and its execution context.
	// RunningNode is -1 if there is no such list.
	ReadyNode, RunningNode, Region, Unblock, Status, ContextOfThread int
	// Mutex is where an rb_thread_t has the Mutex that it wants to lock, in bytes. Collector is the address of the
	// word with the collector's flags, of which CollectsShift and CollectsBits say that it works. It is 0 if unknown.
	Mutex                       int
	Collector                   uint64
	CollectsShift, CollectsBits uint
	// StatusShift and StatusBits are the place of the status in its word.
	StatusShift, StatusBits uint
	// Stacks is true if the Ruby stacks of threads that have the GVL on the clock, and of some that wait for it, are
	// copied.
	Stacks bool
}

// The value of the map of targets: these words, then what the programs count of the process.
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
	// targetSeenTail is the last in the queue as the last record saw it.
	targetSeenTail
	targetStacks
	// Since when, in ns, the copies of stacks of threads that wait are counted that targetInSpan has.
	targetSpanNS
	targetInSpan
	// targetClockNS is when a thread's stack was last copied on the clock.
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

// The words of a record in the ring.
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
	// recordWork is the environment of the request that the thread serves, or 0.
	recordWork
	// recordQueue are threads that have joined the queue since the last record, the last one first, by their nodes.
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

// maxJoined bounds the threads of which a record says that they have joined the queue.
const maxJoined = (recordSize - recordQueue) / 8

// Bits of a task's state while it sleeps: TASK_INTERRUPTIBLE and TASK_UNINTERRUPTIBLE (include/linux/sched.h). Others
// come with them: waits for a futex have TASK_FREEZABLE.
const asleepBits = 1 | 2

// decode makes a Record of the bytes that a program has put into the ring.
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
		r.Queued = r.Queued && at(recordUnblock) == 0 // else the node is in the list of threads to be unblocked
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

// linked reports whether a list's node is in a list. An unlinked node points to itself, or nowhere.
func linked(next, node uint64) bool { return next != 0 && next != node }
