package switches

import "github.com/ddtop/ddtop/sampler"

// Kind says why a record was made.
type Kind uint8

const (
	// Out means that the thread loses its CPU.
	Out Kind = iota + 1
	// Clock means that the thread still has its CPU at a tick of the clock.
	Clock
	// Exited means that the native thread ends. The record has no words of memory.
	Exited
	// Began means that ddtop made the record from its first reading of memory, when it began to follow the process. The
	// thread keeps the state in this record until it first gets or loses a CPU.
	Began
)

// ServesUnread is the value of Record.Serves if memory could not be read. It differs from every address, because no
// Ruby object has the address 1.
const ServesUnread = 1

// Record is one interval of a thread on a CPU, with the contents of Ruby's memory at its end. Words that could not be
// read are 0, and Failed counts them.
type Record struct {
	Kind Kind
	// NS is the end of the interval on a CPU, or the time of the clock tick. InNS is when the interval began. WokenNS
	// is when the thread became runnable, before InNS. All are CLOCK_MONOTONIC in ns. InNS and WokenNS are 0 if they
	// are not known.
	NS, InNS, WokenNS int64
	TID               int32
	// Waker is the native thread that made this thread runnable, or 0 if it is not known. WakerOwner is the owner of
	// the GVL at the time when this happened. WakerOwner is 0 if Waker belongs to another process.
	Waker      int32
	WakerOwner uint64
	// GaveNS is when the thread woke up the next holder of the GVL during this interval. It is 0 if it did not do so.
	GaveNS int64
	// Thread is the address of the rb_thread_t. Owner is the address of the thread that owns the GVL, and Last is the
	// address of the last thread in the queue. Owner and Last are 0 if there is no such thread.
	Thread, Owner, Last uint64
	// Joined are the addresses of threads that have joined the queue for the GVL since the last record, up to six.
	// Unused elements are zero.
	Joined [6]uint64
	// Queued is true if the thread is in the queue for the GVL. Linked is true if the thread is in the list of running
	// threads. Region is true if the thread is in code that gave the GVL away and will take it back. Runnable is true
	// if Ruby's status says that the thread has or wants the GVL.
	Queued, Linked, Region, Runnable bool
	// Before33 is true up to Ruby 3.2. The fields Linked and Last have no meaning on these releases.
	Before33 bool
	// Asleep is true if the thread waits in the kernel. It is false if the thread has only lost its CPU to another
	// thread.
	Asleep bool
	// Syscall is the number of the system call that the thread is in, and Args are its arguments. Syscall is -1 if the
	// thread is in no system call.
	Syscall int64
	Args    [3]uint64
	// Name is the name of the system call. Descriptor is true if the first argument of the call is a descriptor. The
	// caller of Feed sets both.
	Name       string
	Descriptor bool
	// FD is the first descriptor for which a poll waits. It is -1 for other system calls.
	FD int32
	// Status is the status that Ruby itself keeps for the thread. Mutex is the address of the Mutex that the thread
	// wants to lock, or 0.
	Status sampler.Status
	Mutex  uint64
	// Left has the same meaning as in sampler.Doing. The caller of Feed sets it.
	Left bool
	// Collects is true if the garbage collector is working.
	Collects bool
	// OfMove is true if Movements made the record (--source moved), when a thread got or lost a CPU. Such a record has
	// no system call, no Status and no state of the collector.
	OfMove bool
	// DelayNS is how long the native thread has been runnable without a CPU, in ns. It is the sum since the thread's
	// start.
	DelayNS int64
	// CFP is the address of the innermost control frame. PC is its place in the code, and SP its stack pointer.
	CFP, PC, SP uint64
	Failed      int
	// Stack is the thread's Ruby stack at NS, if it was copied.
	Stack Named
	// Serves is the address of the environment (the Hash) of the request that the thread serves. It is 0 if it serves
	// no request, or if ddtop does not know where threads keep environments. It is ServesUnread if memory could not be
	// read.
	Serves uint64
	// Work is the request that the thread has begun, and WorkNS is when. Work is nil if the thread has begun no
	// request, or if ddtop does not know. Ends is true if the thread has ended a request, at WorkNS.
	Work   Worked
	Ends   bool
	WorkNS int64
}

// SetStatus sets Status, and sets Runnable accordingly.
func (r *Record) SetStatus(word uint64) {
	r.Status = sampler.Status(word)
	r.Runnable = r.Status == sampler.Runnable
}

// Named is a copied stack. ddtop looks up the names of its frames later, so they may not be known yet.
type Named interface {
	// Ready reports whether Name may be called. It returns true if the stack has its name, or if ddtop has given up
	// waiting for the name.
	Ready() bool
	// Name returns the name of the stack. It is called only once. Resumes has the same meaning as in sampler.Change.
	// Both are 0 if the stack has no name.
	Name() (stack, resumes sampler.StackID)
}

// Worked is a request that a thread has begun. ddtop may still have to find it in the target's memory.
type Worked interface {
	// Ready reports whether ID may be called. It returns true if the request was found, or if ddtop has given up
	// searching for it.
	Ready() bool
	// ID returns the ID of the request. It is 0 if the request was not found.
	ID() sampler.WorkID
}

// sends are the system calls that can wake another thread, but do not wait for that thread. The value of each is a time
// in ns. It is the time from when the caller gives the GVL away until it loses its CPU to the woken thread.
var sends = map[string]int64{"sendto": sendNS, "sendmsg": sendNS, "sendmmsg": sendNS, "write": writeNS,
	"writev": writeNS, "futex": writeNS, "sendfile": writeNS, yield: writeNS}

// yield is the system call that gives the CPU to another thread. Up to Ruby 3.2, a thread makes it just after it has
// given the GVL away (native_thread_yield in thread_pthread.c).
const yield = "sched_yield"

// large reports whether the system call reads or writes so much that a thread can lose its CPU in the middle of it. The
// number of bytes is the third argument. For sendfile it is the fourth, which records do not have.
func (r *Record) large() bool {
	return r.Descriptor && r.Name != "sendfile" && r.Args[2] >= largeBytes
}

// inCall reports whether the thread lost its CPU in a system call that it had just entered. There are two cases: it
// waits in the call, or the call woke another thread, which took the CPU.
func (r *Record) inCall() bool {
	return r.Kind == Out && (r.Asleep || r.state() == released && sends[r.Name] != 0 && !r.large())
}

// state says what the thread does with the GVL at the end of the record's interval.
func (r *Record) state() state {
	switch {
	case r.Thread == 0:
		return unknown
	case r.Owner == r.Thread && (r.Linked || r.Before33):
		return running
	case r.Owner == r.Thread, r.Queued, r.Runnable && !r.Region && r.Name != yield:
		return waiting
	}
	return released
}

type state uint8

const (
	unknown state = iota
	running
	waiting
	released
)
