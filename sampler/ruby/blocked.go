package ruby

import (
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// maxWaitingChildren limits how many entries are read of the VM's list of threads that wait for child processes (2.6 to
// 3.2).
const maxWaitingChildren = 4096

// These are byte offsets in struct waitpid_state (process.c, 2.6 to 3.2). The struct has the list node, the waiter's
// execution context, a pointer to its condition variable, the result, and the awaited pid.
const (
	waitpidEC, waitpidPID, waitpidSize = 16, 36, 40
)

// waitTimeout, waitRead and waitWrite are bits of rb_thread_sched_waiting.flags (thread_pthread.h, 3.3 and later).
const (
	waitTimeout = 0x01
	waitRead    = 0x02
	waitWrite   = 0x08
)

// blockedState is the reason why a thread does not run. ddtop finds it in the thread's memory, and keeps the evidence.
type blockedState struct {
	value sampler.Blocked
	// The next two fields are the evidence: the stack, and fields of the thread. If they are equal in the next reading,
	// the reason is still valid.
	stack  stackVersion
	mutex  uint64
	status sampler.Status
	region bool
	nt     uint64
	known  bool
	takes  bool // the thread waits to take an item from a Queue
	// sinceNS is when ddtop found the present reason, CLOCK_MONOTONIC in ns.
	sinceNS int64
	// payload is the address of the struct of the Mutex for which the thread waits. Ticks that read stacks read the
	// owner field of this struct into holder.
	payload attach.Address
	holder  [8]byte
	read    bool // holder was read in the last stack tick
	// owner is the thread that owned the Mutex when its holder was last read.
	owner *thread
}

// blockReader reads what threads wait for.
type blockReader struct {
	*target
	list              *threadList
	mProcess, cRactor uint64
	looks             queueLooks
}

// forget drops the reason for waiting when the thread runs or wants to run.
func (b *blockedState) forget() {
	if b.known || b.value.FD != -1 {
		*b = blockedState{value: sampler.Blocked{FD: -1}}
	}
}

// planHolder prepares to read the owner field of the Mutex for which a thread waits.
func (r *blockReader) planHolder(t *thread) {
	b := &t.blocked
	b.read = false
	if b.known && b.payload != 0 {
		r.plan.begin(forHolder, t)
		r.add(b.payload+attach.Address(r.mutexOwnerField()), b.holder[:])
	}
}

// mutexOwnerField returns the offset of the owner field in rb_mutex_struct. From Ruby 3.0 to 3.4, the field refers to a
// fiber. In all other releases, it refers to a thread.
func (r *blockReader) mutexOwnerField() int {
	if r.o.MutexFiber >= 0 {
		return r.o.MutexFiber
	}
	return r.o.MutexThread
}

// describeBlocked finds out what a thread without the GVL waits for. The evidence is in the thread's own fields and in
// the receivers (self) of its innermost frames (docs/internals/threads.md#what-a-thread-waits-for). While the evidence
// stays the same, describeBlocked only reads again who holds a mutex.
func (r *blockReader) describeBlocked(t *thread) {
	b := &t.blocked
	status := sampler.Status(r.o.ThStatus.In(t.buf))
	region := le64(t.buf[r.o.ThRegion:]) != 0
	mutex := le64(t.buf[r.o.ThLockingMutex:])
	var nt uint64
	if r.o.ThNT >= 0 {
		nt = le64(t.buf[r.o.ThNT:])
	}
	if b.known && b.stack == t.stack.version && b.mutex == mutex && b.status == status && b.region == region && b.nt == nt && (nt != 0 || r.o.ThNT < 0) {
		if b.payload != 0 && b.read {
			b.value.Holder = r.holderThread(b)
		}
		return
	}
	*b = blockedState{value: sampler.Blocked{FD: -1}, stack: t.stack.version, mutex: mutex, status: status, region: region, nt: nt,
		known: true, sinceNS: r.list.beganNS}
	v := &b.value
	var types [4]string
	r.dec.Objects.DataTypeNames(t.stack.topSelf[:], types[:])
	switch {
	case parkedOnCondition(t, &types, v):
	case mutex != 0:
		v.Kind, v.Object = sampler.BlockMutex, mutex
		if m := r.monitorOf(t, &types, mutex); m != 0 {
			v.Kind, v.Object = sampler.BlockMonitor, m
		}
		b.payload = r.payload(mutex)
		if b.payload != 0 && r.mem.Read(b.payload+attach.Address(r.mutexOwnerField()), b.holder[:]) == nil {
			v.Holder = r.holderThread(b)
		}
	case r.scheduledIO(t, v):
	// This case must come before the sleeps. Thread#join with a time limit looks like a sleep, but is not one.
	case r.receiverWait(t, &types, region, status, v):
	case !region && r.childWait(t, v):
	case v.DeadlineNS != 0:
		v.Kind = sampler.BlockSleep
	case !region && status == sampler.StoppedForever:
		v.Kind = sampler.BlockSleepForever
	case !region && status == sampler.Stopped:
		v.Kind = sampler.BlockSleep
	}
	b.takes = r.takes(t, v.Kind)
}

// parkedOnCondition searches for a ConditionVariable among the receivers (self) of the innermost frames. Up to 3.4 the
// innermost receiver is the Mutex that the waiting thread has released. From 4.0 on it is the ConditionVariable.
func parkedOnCondition(t *thread, types *[4]string, v *sampler.Blocked) bool {
	for i, self := range t.stack.topSelf {
		if types[i] == "condvar" {
			v.Kind, v.Object = sampler.BlockConditionVariable, self
			return true
		}
	}
	return false
}

// monitorOf returns the Monitor that contains a mutex. It returns zero if the thread waits for a plain Mutex.
func (r *blockReader) monitorOf(t *thread, types *[4]string, mutex uint64) uint64 {
	if r.o.MonitorMutex < 0 {
		return 0
	}
	for i, self := range t.stack.topSelf {
		if types[i] != "monitor" {
			continue
		}
		if p := r.payload(self); p != 0 && r.wordAt(p+attach.Address(r.o.MonitorMutex)) == mutex {
			return self
		}
	}
	return 0
}

// scheduledIO reads the M:N scheduler's entry of a thread that has no native thread. The entry shows whether the
// thread waits for a descriptor, and the deadline of the wait.
func (r *blockReader) scheduledIO(t *thread, v *sampler.Blocked) bool {
	if r.o.ThNT < 0 || le64(t.buf[r.o.ThNT:]) != 0 || !r.o.ThWaitFlags.Known() {
		return false
	}
	flags := r.o.ThWaitFlags.In(t.buf)
	if flags&waitTimeout != 0 && r.o.ThWaitTimeout >= 0 {
		v.DeadlineNS = int64(le64(t.buf[r.o.ThWaitTimeout:]))
	}
	if flags&(waitRead|waitWrite) == 0 {
		return false
	}
	v.Kind, v.FD = sampler.BlockIO, int32(r.o.ThWaitFD.In(t.buf))
	return true
}

// receiverWait finds out what a thread waits for, with the receivers (self) of its innermost frames. It begins at the
// innermost frame, and goes outward up to the first C function.
func (r *blockReader) receiverWait(t *thread, types *[4]string, region bool, status sampler.Status, v *sampler.Blocked) bool {
	if status == sampler.Runnable {
		return false
	}
	for i, self := range t.stack.topSelf {
		if self == 0 {
			continue
		}
		if self == r.mProcess && (!region || t.stack.topC[i]) {
			v.Kind = sampler.BlockChild
			v.Child, _ = r.waitedChild(t)
			return true
		}
		name := types[i]
		switch {
		case (name == "queue" || name == "Thread::Queue") && r.inMethodOf(t, "Queue#"):
			v.Kind, v.Object = sampler.BlockQueue, self
			return true
		case (name == "sized_queue" || name == "Thread::SizedQueue") && r.inMethodOf(t, "SizedQueue#"):
			v.Kind, v.Object = sampler.BlockSizedQueue, self
			return true
		case (strings.HasPrefix(name, "ractor") || self == r.cRactor) && r.inMethodOf(t, "Ractor"):
			v.Kind, v.Object = sampler.BlockRactor, self
			return true
		case name == "VM/thread" && !region && r.inMethodOf(t, "Thread#"):
			if other := r.list.threadOf(self); other != nil && other != t {
				v.Kind, v.Object, v.Holder = sampler.BlockJoin, self, other.id
				return true
			}
		}
		// From 3.3 on, the innermost frame of a waiting thread can be a method in Ruby code, such as Queue#pop in
		// <internal:thread_sync>. So the search goes outward until it finds a C function.
		if t.stack.topC[i] {
			break
		}
	}
	return false
}

// inMethodOf reports whether the labels of the innermost frames name a method of the class. The receivers alone are no
// proof. The block of a Ractor has the Ractor as its receiver, and a subclass of Queue may have methods that sleep. If
// the labels are not known, inMethodOf returns true.
func (r *blockReader) inMethodOf(t *thread, class string) bool {
	known := false
	in := r.innermost(t, func(label string) bool {
		known = known || label != ""
		return strings.HasPrefix(label, class)
	})
	return in || !known
}

// innermost calls the function matches with the labels of the innermost frames. It reports whether matches returns true
// for one of them. It first removes "Thread::" from each label.
func (r *blockReader) innermost(t *thread, matches func(label string) bool) bool {
	stack := t.stack.id
	for range t.stack.topSelf {
		if stack == 0 {
			break
		}
		caller, id := r.dict.Stack(stack)
		if matches(strings.TrimPrefix(r.dict.Frame(id).Label, "Thread::")) {
			return true
		}
		stack = caller
	}
	return false
}

// payload returns the address of the C struct of a typed data object, such as a Mutex, or zero if it is unreadable.
func (r *target) payload(value uint64) attach.Address {
	var header [heap.DataHeader]byte
	if r.mem.Read(attach.Address(value), header[:]) != nil {
		return 0
	}
	return r.o.Objects.Data(attach.Address(value), header[:])
}

func (r *threadList) threadOf(value uint64) *thread {
	for _, t := range r.order {
		if t.self == value {
			return t
		}
	}
	return nil
}

// holderThread returns the ID of the thread that holds a Mutex, from the Mutex's owner field in b.holder. It returns
// zero if no thread holds the Mutex, or if the holder is not in ddtop's list of threads.
func (r *blockReader) holderThread(b *blockedState) sampler.ThreadID {
	word := attach.Address(le64(b.holder[:]))
	if word == 0 {
		b.owner = nil
		return 0
	}
	if r.o.MutexFiber < 0 {
		b.owner = r.list.threads[word]
	} else if ec := r.contextOf(word); b.owner == nil || b.owner.stack.ec != ec {
		b.owner = r.list.threadOfFiber(ec)
	}
	if b.owner == nil {
		return 0
	}
	return b.owner.id
}

// threadOfFiber returns the thread that runs the fiber with the context ec. If the fiber is suspended, it returns the
// thread to which the fiber belongs.
func (r *threadList) threadOfFiber(ec attach.Address) *thread {
	for _, t := range r.order {
		if t.stack.ec == ec {
			return t
		}
	}
	return r.threads[r.addressAt(ec+attach.Address(r.o.ECThread))]
}

// sleepers are methods in which a thread only sleeps. A thread in one of them does not wait for a child process. The
// map must not be changed.
var sleepers = map[string]bool{"Kernel#sleep": true, "Kernel.sleep": true, "Thread.stop": true}

// childWait finds out whether a thread waits for a child process when no receiver (self) shows this (2.6 to 3.2). For
// example, the receiver of Kernel#system can be any object, and the thread of Process.detach has no frame. childWait
// does not search the VM's list for threads that sleep, because there can be many of them.
func (r *blockReader) childWait(t *thread, v *sampler.Blocked) bool {
	if r.o.VMWaitingPids < 0 {
		return false
	}
	if _, frame := r.dict.Stack(t.stack.id); sleepers[r.dict.Frame(frame).Label] {
		return false
	}
	child, ok := r.waitedChild(t)
	if ok {
		v.Kind, v.Child = sampler.BlockChild, child
	}
	return ok
}

// waitedChild returns the pid of the child process that a thread waits for, from the VM's list of waiters (2.6 to 3.2).
// ok is false if the thread is not in the list.
func (r *blockReader) waitedChild(t *thread) (pid int32, ok bool) {
	for _, off := range [2]int{r.o.VMWaitingPids, r.o.VMWaitingGrps} {
		if off < 0 {
			continue
		}
		head := r.vm.Addr + attach.Address(off)
		var b [waitpidSize]byte
		if r.mem.Read(head, b[:8]) != nil {
			return 0, false
		}
		node := attach.Address(le64(b[:]))
		for hops := 0; node != head && node != 0 && hops < maxWaitingChildren; hops++ {
			if r.mem.Read(node, b[:]) != nil {
				return 0, false
			}
			if attach.Address(le64(b[waitpidEC:])) == t.stack.ec {
				return int32(le32(b[waitpidPID:])), true
			}
			node = attach.Address(le64(b[:]))
		}
	}
	return 0, false
}
