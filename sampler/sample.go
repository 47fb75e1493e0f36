package sampler

import "slices"

// ThreadID identifies a Ruby thread for the whole life of a ddtop process. Ruby reuses the addresses, tids and Thread
// objects of threads, so none of them identifies a thread. Therefore ddtop numbers the threads itself, and uses each
// number only once. The first number is 1. Zero means "no thread".
type ThreadID uint32

// RactorID is Ruby's own number of a ractor (rb_ractor_t.pub.id). 1 is the main ractor. Releases before 3.0 have no
// ractors, so all of their threads have the RactorID 1.
type RactorID uint32

// Depth says how much a tick reads.
type Depth uint8

const (
	// LockTick is a short tick. It reads only the scheduler, the status words of threads, and the stack of each GVL
	// owner.
	LockTick Depth = iota
	// StackTick is a tick that reads what a LockTick reads, and also the stacks of all threads.
	StackTick
)

// Status is the state of a thread in Ruby's own words: the field rb_thread_t.status (docs/internals/threads.md#status).
type Status uint8

const (
	// Runnable threads run, or want to run. Thread#status returns "run" for them.
	Runnable Status = 0
	// Stopped threads are in Kernel#sleep with a timeout, or in C code that runs without the GVL (a blocking region).
	// Thread#status says "sleep".
	Stopped Status = 1
	// StoppedForever threads wait for another thread, without a timeout. A thread dump shows the status "sleep_forever"
	// for them.
	StoppedForever Status = 2
	// Killed threads are finished. Thread#status says false.
	Killed Status = 3
)

// String returns the word used in dumps: run, sleep, sleep_forever, dead.
func (s Status) String() string { return wordOf(s, "unknown", "run", "sleep", "sleep_forever", "dead") }

// ThreadBits are facts about a thread, most of them about its place in Ruby's scheduler. A bit means the same on all
// releases of Ruby, although Ruby keeps the facts in different places
// (docs/internals/threads.md#the-gvl-and-its-queue).
type ThreadBits uint16

const (
	// BitQueued means that the thread waits in its ractor's queue for the GVL: a list node in the thread is linked into
	// the queue.
	BitQueued ThreadBits = 1 << iota
	// BitLinked means that memory proves that the thread runs. From 3.3 on, the proof is that the thread's
	// running_threads node is linked. Earlier releases have no such node. There the proof is that the field for the
	// GVL's owner named the thread at the start or at the end of the read.
	BitLinked
	// BitBlockingRegion means that rb_thread_t.blocking_region_buffer is set. Ruby sets it when a thread gives the GVL
	// up to run C code without it. Ruby clears it when the thread holds the GVL again. So the bit is also set while the
	// thread waits to get the GVL back.
	BitBlockingRegion
	// BitUnmounted means that an M:N thread has no native thread at present (rb_thread_t.nt is NULL).
	BitUnmounted
	// BitMain marks the VM's main thread.
	BitMain
	// BitInferred means that ddtop has not read in memory that the thread waits for the GVL, but has inferred it. This
	// is necessary on Ruby 2.5, which counts the waiting threads, but does not list them.
	BitInferred
	// BitStarting means that Ruby lists the thread, but its native thread has not run yet. So the thread has no stack
	// or TID.
	BitStarting
	// BitNoStatus means that this tick could not read the thread's status and blocking region. The thread's other bits
	// are the bits that it had in the previous tick.
	BitNoStatus
	// BitCollects means that the collector works (GC.During), and that the thread's ractor has the VM's lock
	// (rb_vm_struct.ractor.sync.lock_owner). Ruby collects only under this lock (gc_enter in gc.c). So if a thread with
	// the bit also holds its ractor's GVL, it is the thread that collects. No thread has the bit if there is only one
	// ractor, or if ddtop cannot read the lock's owner.
	BitCollects
	// BitBarrier means that a ractor has asked the other ractors to stop, and that some of them have not stopped yet.
	// ddtop reads this from the field barrier_waiting (rb_vm_barrier). The field is in rb_vm_struct.ractor.sync, and
	// from 3.3 on in rb_vm_struct.ractor.sched. A thread has the bit only if it is its ractor's OwnerStart or OwnerEnd.
	BitBarrier
	// BitRootFiber means that the main thread runs its first fiber, whose outermost frame is the program's main script.
	// No thread has the bit on Ruby 2.5, where ddtop cannot read this. No thread has it either if a thread other than
	// the main one forked the process.
	BitRootFiber
	// BitLoopFiber means that the thread has a fiber scheduler (Fiber.set_scheduler, Ruby 3.0 and later) and runs a
	// fiber other than its first one. The first fiber runs the scheduler's event loop, not the program's tasks.
	BitLoopFiber
	// BitFiberTurn flips between 0 and 1 each time ddtop sees that a thread with a fiber scheduler has switched to
	// another fiber. It is always 0 for other threads.
	BitFiberTurn
	// BitItems means that the thread has waited for a second or longer to take an item from a Queue or SizedQueue that
	// does have items. ddtop checks this twice per second. No thread has the bit if ddtop cannot read the items.
	BitItems
)

// BlockKind is the kind of object that a thread without the GVL waits for, according to the target's memory.
type BlockKind uint8

// These are the values of Blocked.Kind. BlockNone means that the target's memory shows no object that the thread waits
// for. Then only the kernel can say what the thread waits for.
const (
	BlockNone BlockKind = iota
	BlockMutex
	BlockMonitor
	BlockQueue
	BlockSizedQueue
	BlockConditionVariable
	BlockJoin
	BlockSleep
	BlockSleepForever
	BlockChild
	BlockRactor
	BlockIO
	BlockSelect
)

// Blocked says what a thread that has released the GVL waits for, according to the target's memory.
type Blocked struct {
	Kind BlockKind
	// Object is the address of the object that the thread waits for: a Mutex, Monitor, Queue, ConditionVariable, Thread
	// or IO. It is zero if no object is known.
	Object uint64
	// Holder is the thread that holds the Mutex or Monitor. If the thread waits in Thread#join, Holder is the thread
	// that it joins. It is zero if none is known.
	Holder ThreadID
	// FD is the file descriptor that the thread waits for, as Ruby's memory shows it (waiting_fds up to 3.4,
	// waiting_reason of M:N threads). It is -1 if there is none.
	FD int32
	// Child is the child process that the thread waits for: a pid as the target sees it, or -1 for any child. It is
	// zero if no child is known.
	Child int32
	// DeadlineNS is when a wait with a timeout ends, CLOCK_MONOTONIC in ns. It is zero if the wait has no timeout, or
	// if the timeout is not known.
	DeadlineNS int64
}

// PeerID identifies a Peer in the Dictionary. 0 means "none".
type PeerID uint32

// Kernel is what the kernel reports about a Ruby thread's native thread, and when ddtop read it. ddtop reads /proc
// later and more rarely than the target's memory. The zero value means that ddtop has not read it.
type Kernel struct {
	// StateAtNS is when Syscall, FD and Peer were read, CLOCK_MONOTONIC in ns. It is zero if they never were.
	StateAtNS int64
	// CPUAtNS is when CPUNS, RunDelayNS and Turns were read, CLOCK_MONOTONIC in ns. It is zero if they never were.
	CPUAtNS int64
	// CPUNS is the thread's time on a CPU since its start, in ns. RunDelayNS is the time in which it could run but had
	// no CPU. They are fields 1 and 2 of /proc/PID/task/TID/schedstat.
	CPUNS, RunDelayNS int64
	// Turns is how often the thread got a CPU since its start (schedstat field 3). It is read together with CPUNS. It
	// is zero if it is not known. If it has not changed between two readings, the thread has not run.
	Turns int64
	// Syscall is the name of the system call that the native thread sleeps in. It is SyscallRunning if the thread is
	// runnable or on a CPU. It is SyscallNone if it sleeps outside a system call, as in a page fault. It is empty if it
	// is not known.
	Syscall string
	// FD is the file descriptor that the thread waits for. It is the first of them if there are several, and -1 if
	// there is none.
	FD int32
	// FDs is the number of descriptors that a poll or select waits for. For other system calls it is 0 or 1.
	FDs int32
	// Peer is the other end of FD.
	Peer PeerID
	// Child is the pid that a wait4 or waitid call waits for. It is -1 if the call waits for any child, and zero if the
	// thread is in no such call.
	Child int32
	// Listens is set if the thread waits for data on the TCP connection FD, but not for an answer to a request that it
	// sent. For example, a server's thread waits for the next request. ddtop concludes this if the last data came long
	// after the target last sent any, or if the target never sent any. It is checked at most once per second.
	Listens bool
	// Rechecked is true if ddtop read the GVL's owner again after the kernel's answer, and the thread was still the
	// owner. If the kernel says that the thread sleeps, only Rechecked proves that it held the GVL while it slept.
	Rechecked bool
}

// These are values of Kernel.Syscall that are not names of system calls.
const (
	SyscallRunning = "(running)"
	SyscallNone    = "(none)"
	// SyscallStopped means that a signal or a debugger has stopped the thread. The thread may have been in a system
	// call or not. The value is used only for holders of the GVL.
	SyscallStopped = "(stopped)"
	// SyscallFrozen means that the thread does not run because its cgroup is frozen. The value is used only for holders
	// of the GVL.
	SyscallFrozen = "(frozen)"
	// SyscallEnded means that the native thread has ended by pthread_exit, although Ruby still lists it as a thread.
	// The kernel lists an ended thread only if it is the first thread of its process.
	SyscallEnded = "(ended)"
	// SyscallLostLock means that the thread waits in a futex for a mutex of C code that no thread of the process owns.
	// The owner has ended, or it held the mutex at a fork that did not copy the owner. SyscallLostHelper means that the
	// thread waits in a futex, and that another thread waits for such a mutex. The other thread is unknown to Ruby. An
	// example is the thread that resolves a host name.
	SyscallLostLock   = "(lock of no thread)"
	SyscallLostHelper = "(helper at a lock of no thread)"
	// SyscallHelperLock means that the thread waits in a futex, and that a helper waits for a lock of C code. A helper
	// is a thread that is unknown to Ruby. No other helper is in a system call that can ask a server. So the thread
	// does not wait for a server's answer.
	SyscallHelperLock = "(helper at a lock)"
)

// StackQuality has bits that say how much of a thread's stack in a sample can be trusted.
type StackQuality uint8

const (
	// StackFresh means that the stack was read in this sample. If a thread waits, it is enough that its stack was read
	// less than 50 ms ago. In a live process with more than 32 threads, each stack tick reads the stacks of only some
	// waiting threads. Without this bit Stack is the last known stack.
	StackFresh StackQuality = 1 << iota
	// StackPartial means that frames changed while ddtop read the stack. ddtop makes two copies, and Stack has only the
	// outer frames that are the same in both.
	StackPartial
	// StackFailed means that ddtop could not read the stack: the memory was gone, or its two copies showed different
	// fibers.
	StackFailed
	// StackTruncated means that the stack is deeper than the limit. Frames were left out of its middle, and
	// Thread.Omitted is their number.
	StackTruncated
	// StackUncertainTop means that the innermost frame cannot be trusted. Either StackPartial is set, or the frame may
	// be incomplete because the thread ran while it was read. The second case happens only on some releases of Ruby.
	StackUncertainTop
	// WorkUnknown means that ddtop could not read the thread's request or job. If the bit is not set and Serving.Work
	// is zero, the thread works for no request or job. Recordings of older releases of ddtop lack the bit.
	WorkUnknown
)

// Thread is the data of one Ruby thread in a sample.
type Thread struct {
	ID     ThreadID
	Ractor RactorID
	// TID is the native thread's id in ddtop's own PID namespace. It is zero if the thread has no native thread: it has
	// not started, or it is an unmounted M:N thread.
	TID     int32
	Status  Status
	Bits    ThreadBits
	Quality StackQuality
	// Omitted is the number of frames that were left out of the middle of the stack.
	Omitted uint32
	// Stack is the running fiber's stack.
	Stack StackID
	// Native is Stack with the C functions that its innermost frame has called. It is zero if these functions are not
	// known. They may have been read earlier than Stack. They still belong to Stack, because the thread got no CPU in
	// between (see Kernel.Turns).
	Native StackID
	// Resumers are the stacks of the fibers that wait until the running fiber yields or ends. The first stack is of the
	// fiber that resumed the running one. The next stack is of the fiber that resumed the first fiber, and so on.
	// Resumers is nil if no fiber waits.
	Resumers []StackID
	Blocked  Blocked
	Kernel   Kernel
	// Serving is the request or job that the thread works for. It is read together with Stack.
	Serving Serving
}

// Ractor is the data about the GVL of one ractor in a sample.
type Ractor struct {
	ID RactorID
	// OwnerStart is the thread that owned the GVL at the start of the read, and OwnerEnd the thread that owned it at
	// the end. Zero means that no thread owned it.
	OwnerStart, OwnerEnd ThreadID
	// Queue holds the threads that wait for the GVL, in the order in which they will get it. It is nil if Torn is set.
	Queue []ThreadID
	// Waiting is the number of threads that wait for the GVL. It is known on every release, even on Ruby 2.5, which has
	// no Queue.
	Waiting int32
	// Torn means that the queue could not be read, because it changed during the read and during a retry. The bit
	// BitQueued of each thread is still valid.
	Torn bool
}

// QueueHead returns the thread that is first in a ractor's queue for the GVL. If the queue could not be read, as on
// Ruby 2.5, QueueHead returns the value of the parameter last.
func (s *Sample) QueueHead(id RactorID, last ThreadID) ThreadID {
	for i := range s.Ractors {
		if r := &s.Ractors[i]; r.ID == id && len(r.Queue) > 0 {
			return r.Queue[0]
		}
	}
	return last
}

// GCMode is the garbage collector's present phase (rb_objspace.flags.mode).
type GCMode uint8

// The phases of a collection.
const (
	GCIdle GCMode = iota
	GCMarking
	GCSweeping
	GCCompacting
)

// GC is the data about the garbage collector in a sample.
type GC struct {
	// Valid is true if the other fields were read. It is false if Ruby uses a modular GC (a replaceable collector)
	// other than the default one.
	Valid bool
	// During means that a thread is inside the collector at this instant (rb_objspace.flags.during_gc). The field Mode
	// cannot show this, because it stays set between the steps of incremental marking.
	During bool
	Mode   GCMode
	// Minor is true if the garbage collection is a minor one.
	Minor bool
	// Reason holds the bits of profile.latest_gc_info.
	Reason uint32
	// Count is the number of garbage collections since the process started. MinorCount and MajorCount are how many of
	// them were minor and major.
	Count, MinorCount, MajorCount uint64
	// TimeNS is the total time of GC that Ruby itself counts, in ns of CPU time of the process. It is 0 before Ruby
	// 3.1.
	TimeNS uint64
	// Allocated is the number of objects allocated since the process started. It is exact at this instant on every
	// release. From 3.4 on, each object that a compaction moves also adds one (GCDetail.Moved).
	Allocated uint64
	// Pair says how many objects were allocated just before ddtop read the stack of the GVL's owner. It is the zero
	// value if this number is not known (no owner, several running ractors, ZJIT of 4.1). It is also the zero value if
	// the object counter was not read twice, as in most samples above 2.5 kHz.
	Pair AllocPair
}

// Proc holds the counters of the whole process. ddtop reads them less often than it takes samples.
type Proc struct {
	// AtNS is when the counters were read, CLOCK_MONOTONIC in ns. It is zero if they never were.
	AtNS int64
	// UserNS and SystemNS are the CPU times of the whole process since its start.
	UserNS, SystemNS int64
	RSSBytes         int64
	MajorFaults      int64
	// ThrottledNS, ThrottledPeriods and Periods come from the process's cgroup (cpu.stat). Periods counts the periods
	// in which the CPU limit applied. ThrottledPeriods counts those periods in which the limit stopped threads, and
	// ThrottledNS is how long it stopped them. All are 0 if there is no CPU limit.
	ThrottledNS, ThrottledPeriods, Periods int64
	// SwapBytes is the process's swapped memory (VmSwap).
	SwapBytes int64
	// Pressure is how long tasks had to stop because they lacked a CPU, memory or I/O.
	Pressure Pressure
	// PSSBytes is the process's proportional memory (Pss of smaps_rollup, proc_pid_smaps(5)). If several processes
	// share memory, such as the workers of a forking server, each of them counts only a part of this memory. PSSBytes
	// is read every ten seconds or less often. It is zero if it is not known.
	PSSBytes int64
	// Switches is the number of context switches of the process since the attach: how often one of its threads got a
	// CPU (task/TID/schedstat). Each thread is read once per second. If a thread ends, its switches since its last
	// reading are missing.
	Switches int64
	// Stopped is true if a signal (SIGSTOP, ctrl-z) or a debugger has stopped the process. ddtop sees this in the state
	// T or t of the main thread (/proc/PID/stat, proc(5)). No thread of a stopped process runs, so each wait lasts
	// until the process continues.
	Stopped bool
	// Frozen is true if the process's cgroup, or a parent of the cgroup, is frozen (docker pause, systemctl freeze). No
	// thread of a frozen process runs.
	Frozen bool
}

// Halted reports whether something outside the process stops all of its threads.
func (p *Proc) Halted() bool { return p.Stopped || p.Frozen }

// PressureSource says for which tasks a Pressure counts stalls: the tasks in the process's cgroup, or all tasks of the
// machine.
type PressureSource uint8

// These are the sources of Pressure. PressureNone means that no stalls were counted: the kernel does not count them (it
// has no PSI), or the recording is too old.
const (
	PressureNone PressureSource = iota
	PressureCgroup
	PressureMachine
)

// String returns the word for the source in JSON: none, cgroup, machine.
func (s PressureSource) String() string { return wordOf(s, "none", "none", "cgroup", "machine") }

// Pressure holds the kernel's pressure stall information (Documentation/accounting/psi.rst). The totals, in ns, only
// grow. They count the time in which some, or all, of the busy tasks had to stop because they lacked a CPU, memory or
// I/O. A task lacks memory while the kernel reclaims memory for it or reads it back. When Source changes, the totals
// begin again.
type Pressure struct {
	Source                     PressureSource
	CPUSomeNS                  int64
	MemorySomeNS, MemoryFullNS int64
	IOSomeNS, IOFullNS         int64
}

// Self is what ddtop itself costs. ddtop reads it less often than it takes samples.
type Self struct {
	// CPUNS is the CPU time of ddtop since it started, user and system, in ns. It grows with each reading, because
	// reading it takes CPU time itself.
	CPUNS int64
	// MaxRSSBytes is ddtop's largest resident set.
	MaxRSSBytes int64
	// Priority is the priority of the sampling thread.
	Priority Priority
	// Halved means that no CPU is free, so ddtop uses at most half of the CPU time that Process.Overhead allows.
	// Lowered means that ddtop samples at lower rates than the user asked for, to stay within its limit of CPU time.
	// Extended means that ddtop uses more CPU time than Process.Overhead allows. Otherwise the figures would be too
	// inexact (LeastQualities).
	Halved, Lowered, Extended bool
}

// Reads counts the reads of the target's memory since the attach, and how they ended. All fields only grow.
type Reads struct {
	// Ticks is the number of ticks that delivered a sample. StackTicks is the number of those ticks that read the
	// stacks of all threads.
	Ticks, StackTicks uint64
	// Late counts the ticks that were skipped because ddtop could not keep up with its clock.
	Late uint64
	// Torn counts the reads in which two copies of the same memory differed. Retried counts the retries. Partial counts
	// the stacks of which only a part was kept. Failed counts the reads without a result.
	Torn, Retried, Partial, Failed uint64
	// Uncertain counts the stacks whose innermost frame cannot be trusted. Truncated counts the stacks that were
	// shortened because they are deeper than the limit.
	Uncertain, Truncated uint64
	// Calls is the number of process_vm_readv calls.
	Calls uint64
	// Pauses counts the stack ticks for which ddtop stopped the target (ptrace). PausesCut counts those stack ticks
	// that do not show a single instant, because a thread could not be stopped or the time limit was reached.
	Pauses, PausesCut uint64
	// PausedNS is the sum of Sample.PauseNS over all ticks that stopped the target.
	PausedNS uint64
	// Lost counts samples that were taken but then dropped, because the receiver or the disk was too slow. Ticks
	// includes these samples. If Lost has grown since the previous sample, ddtop knows nothing about the time between
	// the two samples.
	Lost uint64
}

// Sample is the result of one tick: everything that was read at (almost) one instant. Its slices belong to the code
// that made it. They are valid only during the call that delivers the sample. Use Clone to keep a sample.
type Sample struct {
	// TimeNS is the time in the middle of the read, CLOCK_MONOTONIC in ns. For a live process it is rounded to whole
	// µs.
	TimeNS int64
	// ReadNS is how long the read took.
	ReadNS int64
	// PauseNS is how long the target's threads were stopped for this sample, in ns. This time begins with the stop of
	// the first thread and ends with the release of the last one. It is zero if the target was not stopped.
	PauseNS int64
	Depth   Depth
	// Slow means that ddtop takes samples less often than the user asked for, because no thread runs or waits.
	Slow    bool
	Ractors []Ractor
	// Threads are all threads of all ractors, in the order of Ruby's own lists. A LockTick reads only the stacks of the
	// threads that own a GVL, and sets StackFresh for them. The other threads have their last known Stack, without
	// StackFresh.
	Threads []Thread
	GC      GC
	// GCDetail has the last figures of the collector that were read. The time of that reading is GCDetail.AtNS, which
	// can be earlier than this sample.
	GCDetail GCDetail
	Proc     Proc
	Self     Self
	Reads    Reads
	// Classes is the last estimate of how many objects of each class were allocated since the attach. It is nil if
	// there is none, as in a recording without such estimates. It is shared and must not be changed.
	Classes *AllocClasses
	// Fibers is the result of the last pass over all known fibers that wait. It is nil if there was no pass, or in a
	// recording without fibers. It is shared and must not be changed. Its times are the times of the pass, not of this
	// sample.
	Fibers *Fibers
	// Queues are the connections and requests that waited for the process when ddtop last read its queues. It is nil if
	// the queues were never read, or in a recording without them. It is shared and must not be changed.
	Queues *Queues
	// NativeLocks are the locks of C code that threads wait for. It is nil if no thread waits for one, or in a
	// recording without them. It is shared and must not be changed.
	NativeLocks *NativeLocks
	// CPUUse lists the processes that used the CPUs while a thread of the target had to wait for a CPU. It is nil if no
	// thread has had to wait lately, or in a recording without this list. It is shared and must not be changed.
	CPUUse *CPUUse
	// Native holds the native stacks of threads that have not run for a while. It is nil if the samples are not from a
	// live process. All samples share it, so its stacks may be older or newer than this sample.
	Native *NativeWatch
	// Changes are the changes of the GVL since the previous sample: the moments at which threads got it, gave it up or
	// began to wait. They are known in exact mode, and while ddtop follows thread switches (SwitchStatus).
	Changes Changes
	// Runs are the stacks of running threads that the kernel recorded since the previous sample. They are not sorted by
	// time. Runs is nil if none were recorded.
	Runs []NativeRun
}

// Clone returns a deep copy of the sample, which the caller may keep.
func (s *Sample) Clone() *Sample {
	c := new(Sample)
	c.CopyFrom(s)
	return c
}

// CopyFrom makes s a deep copy of another sample. It reuses the memory of s, so that it usually allocates nothing.
func (s *Sample) CopyFrom(from *Sample) {
	ractors := slices.Grow(s.Ractors[:0], len(from.Ractors))[:len(from.Ractors)]
	threads := slices.Grow(s.Threads[:0], len(from.Threads))[:len(from.Threads)]
	changes, runs := copyInto(s.Changes.List, from.Changes.List), copyInto(s.Runs, from.Runs)
	*s = *from
	s.Ractors, s.Threads, s.Changes.List, s.Runs = ractors, threads, changes, runs
	for i := range ractors {
		queue := ractors[i].Queue
		ractors[i] = from.Ractors[i]
		ractors[i].Queue = copyInto(queue, ractors[i].Queue)
	}
	for i := range threads {
		resumers := threads[i].Resumers
		threads[i] = from.Threads[i]
		threads[i].Resumers = copyInto(resumers, threads[i].Resumers)
	}
}

// copyInto copies list into memory, which it enlarges if necessary, and returns the copy. It returns nil if list is
// nil.
func copyInto[T any](memory, list []T) []T {
	if list == nil {
		return nil
	}
	return append(memory[:0], list...)
}
