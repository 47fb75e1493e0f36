package sampler

import (
	"cmp"
	"strings"
)

// Limits of Queues.
const (
	// MaxListeners bounds how many listening sockets of a process are read. A server usually has only a few.
	MaxListeners = 64
	// MaxPools bounds how many pools of threads are read from a process.
	MaxPools = 64
	// MaxLists bounds the Queues of a process that are read. MaxUsers bounds the threads that are listed for each.
	MaxLists, MaxUsers = 64, 16
	// MaxLeases bounds the connection pools of Active Record that are read. MaxOwners bounds the connections of each
	// pool.
	MaxLeases, MaxOwners = 16, 256
)

// UnknownCount stands for a number in Queues that is not known.
const UnknownCount = -1

// Queues are the requests that wait before a process works on them. They wait in connections that the process has not
// accepted, or inside the process until a thread takes them. They are read about once a second.
type Queues struct {
	// AtNS is when they were read, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Accept is the kernel's part.
	Accept Accept
	// Pools are the pools of threads that serve requests or jobs. It is empty if there is none known.
	Pools []Pool
	// Lists are the Queues (Thread::Queue) that are found in constants and variables of the program. They include
	// Arrays that threads use like a Queue. They are in the order of Compare.
	Lists []List
	// Leases are the connection pools of Active Record in which ddtop saw a thread.
	Leases []Lease
}

// Lease describes a pool of Active Record's database connections, and which threads have taken one.
type Lease struct {
	// Queue is the address of the ConditionVariable at which threads wait for a free connection.
	Queue uint64
	// Size is how many connections the pool may have.
	Size int64
	// Owners are the threads that have taken a connection. A connection whose thread has ended has no owner.
	Owners []ThreadID
}

// List is a Queue of the program, or an Array that the program uses like a Queue.
type List struct {
	// Object is the address of the Queue or Array. Array is true if it is an Array.
	Object uint64
	Array  bool
	// Name is the constant or variable that refers to the Queue or Array, such as "Worker::JOBS" or "@jobs". It is
	// empty if not known.
	Name   string
	Length int64
	// Putters are threads whose code puts items into the Queue. Takers are threads whose code takes items out of it.
	// Both are in the order of their IDs, and at most MaxUsers. They are searched only if the Queue grows. A thread
	// whose code does both is in neither list.
	Putters, Takers []ThreadID
}

// Compare orders lists by their addresses.
func (l List) Compare(o List) int { return cmp.Compare(l.Object, o.Object) }

// Accept describes the connections that wait in the kernel until a process accepts them.
type Accept struct {
	// Known reports whether Listeners has all connections that wait for the process. If it does not, Why gives the
	// reason.
	Known bool
	Why   string
	// Listeners are the listening sockets of the process. A forked worker inherits its parent's sockets, so all workers
	// of a server share one queue. Cut is true if there are more than MaxListeners.
	Listeners []Listener
	Cut       bool
	// Overflows counts the connections that the kernel has refused because a queue was full. Drops counts connections
	// refused for any reason. They are ListenOverflows and ListenDrops of /proc/PID/net/netstat. Both count all
	// sockets of the network namespace since it was created. They are UnknownCount if they cannot be read.
	Overflows, Drops int64
}

// Listener is the accept queue of a listening socket.
type Listener struct {
	// Inode identifies the socket.
	Inode uint64
	// Address is address:port, or the path of a unix socket.
	Address string
	// Queued is how many connections wait. Limit is how many may wait. Limit is UnknownCount if the kernel does not
	// report it.
	Queued, Limit int64
}

// passengerSockets is the folder of the sockets of Passenger's processes for an application, in its instance directory
// (src/agent/Core/CoreMain.cpp of Passenger 5 and later).
const passengerSockets = "/apps.s/"

// HeldByPassenger sets Known to false if Passenger has started the process for an application. Passenger's own core
// process accepts all connections, and passes a request on when one of the application's processes has a free thread.
// So no connection waits at the process's own sockets, although many requests may wait for it.
func (a *Accept) HeldByPassenger() {
	for i := range a.Listeners {
		if strings.Contains(a.Listeners[i].Address, passengerSockets) {
			a.Known, a.Why = false, "Passenger keeps waiting requests in its core process: see passenger-status"
		}
	}
}

// Compare orders listeners by their addresses.
func (l Listener) Compare(o Listener) int {
	return cmp.Or(cmp.Compare(l.Address, o.Address), cmp.Compare(l.Inode, o.Inode))
}

// PoolKind is the library that made the threads of a Pool.
type PoolKind uint8

// The kinds of pools.
const (
	PoolPuma PoolKind = iota + 1
	PoolSidekiq
	PoolGoodJob
	PoolSolidQueue
	PoolQue
)

// String is the word used in JSON: puma, sidekiq, good_job, solid_queue, que.
func (k PoolKind) String() string {
	return wordOf(k, "unknown", "unknown", "puma", "sidekiq", "good_job", "solid_queue", "que")
}

// Pool is a pool of threads that serve requests or jobs. Its numbers are read from the target's memory. A number is
// UnknownCount if it is not known.
type Pool struct {
	Kind PoolKind
	// Threads is how many threads the pool has now, and Max how many it may have. Busy is how many of its threads have
	// a request or job. For Sidekiq and GoodJob, a busy thread has reserved exactly one job.
	Threads, Busy, Max int64
	// Queued is how many requests wait within the process for a free thread (Puma's @todo). For Solid Queue and Que it
	// is how many jobs the process has reserved although no thread works on them yet.
	Queued int64
	// Clients is how many connections Puma's reactor watches because their clients have not sent a whole request yet.
	Clients int64
}

// Backlog returns how many connections, requests and jobs wait for a thread, in the kernel's queues and in the
// process. known is false if the kernel's queues are not known. It is also false if the process has neither listening
// sockets nor pools with a queue.
func (q *Queues) Backlog() (n int64, known bool) {
	if q == nil || !q.Accept.Known {
		return 0, false
	}
	for i := range q.Accept.Listeners {
		n, known = n+q.Accept.Listeners[i].Queued, true
	}
	for i := range q.Pools {
		if q.Pools[i].Queued != UnknownCount {
			n, known = n+q.Pools[i].Queued, true
		}
	}
	return n, known
}
